"""The lines that are logged: their two forms, what may stand in them, and where they go."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from srb import logs
from srb.config.settings import REPLICA_VARIABLE, Settings
from srb.errors import ConfigError


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    logger = logging.getLogger("srb")
    level = logger.level
    yield logger
    for handler in list(logger.handlers):
        logger.removeHandler(handler)
        handler.close()
    logger.propagate = True
    logger.setLevel(level)


def written(log_file: Path) -> list[dict[str, object]]:
    return [orjson.loads(line) for line in log_file.read_text().splitlines()]


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_the_lines_of_a_replica_name_it(
    logger: logging.Logger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log_format: str
) -> None:
    monkeypatch.setenv(REPLICA_VARIABLE, "a1b2")
    logs.configure(Settings(log_format=log_format, log_file=str(tmp_path / "log")))
    logger.info("it ends")
    line = (tmp_path / "log").read_text()
    assert (" INFO a1b2 srb[" if log_format == "text" else '"replica":"a1b2"') in line


def test_a_json_line_has_the_message_the_fields_and_the_traceback(logger: logging.Logger, tmp_path: Path) -> None:
    logs.configure(Settings(log_format="json", log_file=str(tmp_path / "log")))
    logger.info("%(what)s ends", {"what": "it"}, extra=logs.with_fields({"what": "it", "tokens": 3}))
    try:
        raise ValueError("no\nway")
    except ValueError:
        logger.exception("two\nlines")
    first, second = written(tmp_path / "log")
    assert (first["message"], first["what"], first["tokens"], first["level"]) == ("it ends", "it", 3, "info")
    assert second["message"] == "two\nlines"
    assert "ValueError" in str(second["exception"])


def test_no_message_begins_a_line_of_its_own_or_speaks_to_the_terminal(logger: logging.Logger) -> None:
    logs.configure(Settings())
    stream = io.StringIO()
    [handler] = logger.handlers
    assert isinstance(handler, logging.StreamHandler)
    handler.setStream(stream)
    logger.info("/path\n2026 INFO root: all is well \x1b[2J\u2028")
    assert stream.getvalue().endswith("/path\\n2026 INFO root: all is well \\x1b[2J\\u2028\n")
    assert stream.getvalue().count("\n") == 1


def test_no_json_line_has_a_control_character(logger: logging.Logger) -> None:
    text = "".join(map(chr, (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029))) + 'ä"'
    line = logs.JSONFormatter().format(logger.makeRecord("srb.web", logging.INFO, "", 1, text, (), None))
    assert all(character.isprintable() for character in line)
    assert orjson.loads(line)["message"] == text


def test_a_file_that_was_moved_away_is_opened_anew(logger: logging.Logger, tmp_path: Path) -> None:
    log_file = tmp_path / "log"
    logs.configure(Settings(log_format="json", log_file=str(log_file)))
    logger.info("before")
    log_file.rename(tmp_path / "log.1")
    logger.info("after")
    assert [line["message"] for line in written(log_file)] == ["after"]
    assert [line["message"] for line in written(tmp_path / "log.1")] == ["before"]


def test_a_log_file_on_a_full_disk_is_one_line_a_minute_on_standard_error(
    logger: logging.Logger, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr("srb.logs.time.monotonic", lambda: now)
    logs.configure(Settings(log_file="/dev/full"))
    for _ in range(200):
        logger.info("a line " * 20)
    assert capsys.readouterr().err == "srb: log_file: cannot write /dev/full: No space left on device; a line is lost\n"
    now += 60
    logger.info("one more")
    assert capsys.readouterr().err.endswith("No space left on device; 200 lines are lost\n")


@pytest.mark.parametrize("kind", ["gone", "in the place of a file"])
def test_a_log_file_that_cannot_be_opened_anew_is_told_and_raises_nothing(
    logger: logging.Logger, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    logs.configure(Settings(log_file=str(folder / "log")))
    folder.rename(tmp_path / "moved")
    if kind != "gone":
        folder.write_text("no folder")
    for _ in range(3):
        logger.info("nowhere")
    assert capsys.readouterr().err.count("srb: log_file: cannot write ") == 1
    folder.unlink(missing_ok=True)
    folder.mkdir()
    logger.info("it goes on")
    assert "it goes on" in (folder / "log").read_text()


def test_configuring_again_changes_the_form_and_doubles_no_line(logger: logging.Logger, tmp_path: Path) -> None:
    log_file = tmp_path / "log"
    logs.configure(Settings(log_file=str(log_file)))
    logs.configure(Settings(log_file=str(log_file), log_format="json", log_level="warning"))
    logger.info("not this")
    logger.warning("this")
    assert [line["message"] for line in written(log_file)] == ["this"]


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="log_file: cannot write /nowhere/log: No such file"):
        logs.configure(Settings(log_file="/nowhere/log"))
