"""A token reaches the server and nobody else: not errors, logs, representations, stores or reports."""

import copy
import logging
import pickle
import traceback
from pathlib import Path

import httpx
import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import dowse
from dowse.cli import app
from dowse.errors import InputError
from dowse.targets import parse_spec
from dowse.targets.http.bearer_token import Token
from dowse.targets.http.target import HttpTarget
from dowse.targets.options import HttpOptions
from tests.support import Tanh, pictures
from tests.v2server import serving

SECRET = "s3cret-0123456789abcdef"
NET = Tanh(1)
X = pictures(2, dtype=torch.float32)


@pytest.fixture
def variable(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("DOWSE_TEST_TOKEN", f"{SECRET}\n")
    return "DOWSE_TEST_TOKEN"


def test_a_token_from_a_variable_or_a_file_opens_the_door(variable: str, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{SECRET}\n")
    with serving(NET, token=SECRET) as server:
        for options in (HttpOptions(token_env=variable), HttpOptions(token_file=str(file))):
            target = HttpTarget(server.url, options)
            assert target(X).shape == (2, 4)
            target.close()
        with pytest.raises(InputError, match=r"401.*token_env=NAME or token_file=PATH"):
            HttpTarget(server.url)


def test_a_file_is_read_anew_so_that_a_token_can_change(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first")
    with serving(NET, token="first") as server:
        target = HttpTarget(server.url, HttpOptions(token_file=str(file)))
        server.token = "second"
        assert "401" in str(target.deliver(X).cause)
        file.write_text("second")
        assert target.deliver(X).answered.all()
        file.unlink()
        lost = target.deliver(X)
        assert "cannot be read" in str(lost.cause)
        assert lost.sent.tolist() == [0, 0]
        target.close()


@pytest.mark.parametrize("through_httpx", [True, False])
def test_what_fails_does_not_tell_the_token(
    variable: str, caplog: pytest.LogCaptureFixture, through_httpx: bool
) -> None:
    """The server repeats the header it was given, as some do; all logs are on. Where a proxy is, httpx carries it."""
    caplog.set_level(logging.DEBUG)
    with serving(NET, token=SECRET) as server:
        transport = httpx.HTTPTransport() if through_httpx else None
        target = HttpTarget(server.url, HttpOptions(token_env=variable, retries=0), transport=transport)
        server.token = "another"
        with pytest.raises(dowse.TargetFailedError) as failed:
            dowse.attack(target, X, [0, 0], method="rgf")
        result = dowse.Result(failed.value.outcomes)
        cause = result.outcomes[0].cause
        assert cause is not None
        assert "Bearer *** is not it" in str(cause), "the server did repeat it"
        with pytest.raises(InputError) as caught:
            HttpTarget(server.url, HttpOptions(token_env=variable, retries=0))
        server.die()
        target.deliver(X)
        dead = target.deliver(X).cause
        told = [
            repr(target), repr(target.options), repr(result), str(result.summary()), repr(cause), repr(dead),
            *(line for error in (cause, failed.value, caught.value) for line in traceback.format_exception(error)),
            *traceback.format_exception(dead),
            *(str(record.__dict__) for record in caplog.records), caplog.text,
        ]  # fmt: skip
        assert any("http" in record.name for record in caplog.records) is through_httpx, "the logs were listened to"
        assert all(SECRET not in text for text in told)
        assert SECRET.encode() not in pickle.dumps(cause)
        target.close()


def test_a_token_shows_itself_to_nobody(variable: str) -> None:
    token = Token.read(variable, None)
    assert token is not None
    assert token.header() == f"Bearer {SECRET}"
    assert SECRET not in f"{token} {token!r}"
    with pytest.raises(TypeError, match="not written"):
        pickle.dumps(token)
    with pytest.raises(TypeError, match="not written"):
        copy.deepcopy(token)


def test_a_token_that_is_not_there_is_an_error_that_names_the_place(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("DOWSE_NO_TOKEN", raising=False)
    with pytest.raises(InputError, match=r"DOWSE_NO_TOKEN.*not set"):
        Token.read("DOWSE_NO_TOKEN", None)
    with pytest.raises(InputError, match=r"nowhere.*cannot be read"):
        Token.read(None, tmp_path / "nowhere")
    (tmp_path / "empty").write_text(" \n")
    with pytest.raises(InputError, match="empty"):
        Token.read(None, tmp_path / "empty")
    (tmp_path / "odd").write_text(f"{SECRET}\nmore")
    with pytest.raises(InputError, match="no header can") as caught:
        Token.read(None, tmp_path / "odd")
    assert SECRET not in str(caught.value)
    with pytest.raises(InputError, match="give one of them"):
        HttpOptions(token_env="A", token_file="b")


@pytest.mark.parametrize("spec", ["http://me:{}@host/v2/models/net", "http://host/v2/models/net?token={}"])
def test_a_secret_written_into_a_spec_is_refused_and_not_repeated(spec: str) -> None:
    for use in (parse_spec, lambda text: dowse.attack(text, X, [0, 0], method="rgf")):
        with pytest.raises(InputError, match="token_env") as caught:
            use(spec.format(SECRET))
        assert SECRET not in str(caught.value)


def test_a_run_leaves_no_token_behind(variable: str, tmp_path: Path) -> None:
    images = (X.permute(0, 2, 3, 1) * 255).round().to(torch.uint8).numpy()
    np.savez(tmp_path / "images.npz", images=images)
    out = tmp_path / "out"
    with serving(NET, ["ok", "ok", "401"], token=SECRET) as server:
        spec = f"{server.url}?token_env={variable}&rows=1&connections=1&binary=true"
        words = f"attack --target {spec} --images {tmp_path / 'images.npz'} --method rgf --q 10 --budget 60 --out {out}"
        ran = CliRunner().invoke(app, [*words.split(), "--json"], catch_exceptions=False)
        assert len(server.seen) > 3, ran.output
    files = [file for file in out.rglob("*") if file.is_file()]
    assert files
    assert variable.encode() in b"".join(file.read_bytes() for file in files), "the spec itself is kept"
    assert all(SECRET.encode() not in file.read_bytes() for file in files)
    assert SECRET not in ran.output
