"""`srb stories replay` with files and servers that it cannot use. Whole evenings are in tests/page/test_replaying.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from srb.cli import main as cli
from srb.errors import InvalidRequest
from srb.stories.replay import Server, read_requests

LINE = {"round": "r", "model": "m", "seeds": [7], "request": {"prompt": "Once", "n": 1}, "branches": []}


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[object, str]:
    with pytest.raises(SystemExit) as ended:
        cli.main(["stories", "replay", *arguments])
    return ended.value.code, capsys.readouterr().err.strip()


@pytest.mark.parametrize(
    "wrong", ["{", "[]", "7", "{}", json.dumps({**LINE, "request": {}}), json.dumps({**LINE, "branches": 1})]
)
def test_a_line_that_is_no_request_is_named(wrong: str) -> None:
    with pytest.raises(InvalidRequest, match="line 2 is no request of a story"):
        list(read_requests(f"{json.dumps(LINE)}\n{wrong}\n".encode()))


def test_a_request_that_was_not_kept_is_one() -> None:
    line = {**LINE, "request": None}
    assert list(read_requests(json.dumps(line).encode())) == [line]


@pytest.mark.parametrize("url", ["localhost:9090", "https://host", "http://"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(InvalidRequest, match=r"--url .* should begin with http://"):
        Server(url)


def test_errors_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = tmp_path / "none.jsonl"
    code, error = said(capsys, str(missing), "--url", "http://127.0.0.1:9")
    assert code == 2
    assert error.splitlines() == [f"srb: {missing}: No such file or directory"]
    missing.write_text(json.dumps(LINE))
    code, error = said(capsys, str(missing), "--url", "http://127.0.0.1:9")
    assert code == 1
    assert "http://127.0.0.1:9 does not answer" in error
    assert len(error.splitlines()) == 1
