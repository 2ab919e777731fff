"""The documentation site in a browser: light, dark, and on a phone."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.browser.conftest import browser  # noqa: F401

pytestmark = [pytest.mark.browser, pytest.mark.install]
PAPER = {"light": "rgb(253, 252, 250)", "dark": "rgb(19, 20, 22)"}  # the report's
PAGES = ("index.html", "getting-started.html", "methods/prgf.html", "methods.html", "api/dowse.html", "results.html")


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    with served(site) as address:
        yield address


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 390), ("dark", 390)])
def test_pages_are_whole(browser: Any, address: str, scheme: str, width: int) -> None:  # noqa: F811
    for page in PAGES:
        browser.show(f"{address}/{page}", width=width, scheme=scheme)
        browser.wait("return document.readyState === 'complete'")
        assert browser.run("return getComputedStyle(document.body).backgroundColor") == PAPER[scheme], page
        assert browser.overflow() <= 0, f"{page} is wider than {width}"
        assert not browser.complaints(), page
        outside = [url for url in browser.requests() if not url.startswith((address, "data:", "blob:"))]
        assert not outside, page


def test_letters_are_the_report_s(browser: Any, address: str) -> None:  # noqa: F811
    browser.show(f"{address}/index.html")
    assert "Palatino" in browser.run("return getComputedStyle(document.querySelector('h1')).fontFamily")
    assert browser.run("return getComputedStyle(document.body).fontFamily").startswith("Inter")


def test_search_finds_a_method(browser: Any, address: str) -> None:  # noqa: F811
    browser.show(f"{address}/index.html")
    browser.run("document.querySelector('[data-md-toggle=search]').click()")
    browser.find("[data-md-component=search-query]").send_keys("signhunter")
    browser.wait(
        "return [...document.querySelectorAll('.md-search-result__link')].some(a => a.href.includes('signhunter'))"
    )
