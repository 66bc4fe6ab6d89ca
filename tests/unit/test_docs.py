"""What is written about the settings is true, and nothing is left out."""

from __future__ import annotations

import contextlib
import io
import tomllib
from pathlib import Path

import pytest

from srb import cli
from srb.settings import Settings
from tools.default_config import render

ROOT = Path(__file__).parents[2]
DEFAULTS = ROOT / "config" / "default.toml"


def test_default_toml_holds_every_setting_with_its_default() -> None:
    assert tomllib.loads(DEFAULTS.read_text()) == Settings().model_dump()


def test_default_toml_is_what_settings_say_of_themselves() -> None:
    assert DEFAULTS.read_text() == render(), "run: python -m tools.default_config > config/default.toml"


def test_every_setting_says_what_it_means() -> None:
    for name, field in Settings.model_fields.items():
        assert field.description, name


def test_help_names_every_setting_and_its_default() -> None:
    with pytest.raises(SystemExit) as ended, contextlib.redirect_stdout(io.StringIO()) as written:
        cli.main(["serve", "--help"])
    assert ended.value.code == 0
    shown = " ".join(written.getvalue().split())  # lines are broken anywhere
    for name in Settings.model_fields:
        assert "--" + name.replace("_", "-") in shown
    assert shown.count("default: ") == len(Settings.model_fields)


def test_nginx_forwards_to_the_default_port_and_buffers_nothing() -> None:
    text = (ROOT / "config" / "nginx" / "srb.conf").read_text()
    assert f"127.0.0.1:{Settings().port};" in text
    assert "proxy_buffering off;" in text
