"""A headless Chromium that every browser test shares, and pages opened in it from disk."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

os.environ["SE_OFFLINE"] = "true"  # selenium would else look for drivers in the network
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
)  # fmt: skip


class Browser:
    """The browser: opens a page, waits for conditions, and tells what was logged and asked for."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, page: Path, *, width: int = 1280, height: int = 900, scheme: str = "light") -> None:
        """Open a page from disk and wait until its script has run through."""
        self.show(page.as_uri(), width=width, height=height, scheme=scheme)
        self.wait("return document.documentElement.dataset.ready === 'yes'")

    def show(self, address: str, *, width: int = 1280, height: int = 900, scheme: str = "light") -> None:
        """Go to an address, with an empty console and an empty list of requests."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": features})
        self.driver.get("about:blank")
        for kind in ("browser", "performance"):
            self.driver.get_log(kind)
        self.driver.get(address)

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def wait(self, script: str) -> Any:
        """Wait until a script gives something true, and return that."""
        from selenium.webdriver.support.ui import WebDriverWait

        return WebDriverWait(self.driver, 60).until(lambda driver: driver.execute_script(script), script)

    def find(self, selector: str) -> Any:
        from selenium.webdriver.common.by import By

        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def press(self, key: str) -> None:
        """Press a key wherever the focus is."""
        from selenium.webdriver.common.keys import Keys

        self.driver.switch_to.active_element.send_keys(getattr(Keys, key))

    def click(self, selector: str) -> None:
        self.run("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", self.find(selector))
        self.find(selector).click()

    def complaints(self) -> list[str]:
        """Everything on the console."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """The addresses that were asked for since the page was opened."""
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        return [one["params"]["request"]["url"] for one in events if one["method"] == "Network.requestWillBeSent"]

    def overflow(self) -> int:
        """By how many pixels the page is wider than its window."""
        return int(self.run("return document.documentElement.scrollWidth - window.innerWidth"))


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    binary, server = shutil.which("chromium"), shutil.which("chromedriver")
    if find_spec("selenium") is None or binary is None or server is None:
        pytest.skip("no selenium, chromium or chromedriver; `make test-extra` installs them")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(server))
    try:
        yield Browser(driver)
    finally:
        driver.quit()


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Makes the page of a store, once for every name."""
    from dowse.report import write_html
    from tests.stores import Made, make_store

    made: dict[str, Path] = {}

    def make(name: str, runs: list[Made]) -> Path:
        if name not in made:
            folder = make_store(tmp_path_factory.mktemp(name), runs)
            made[name] = write_html(folder)
        return made[name]

    return make
