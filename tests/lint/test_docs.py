"""What is written about the settings is true, and nothing is left out."""

from __future__ import annotations

import contextlib
import io
import re
import tomllib
from pathlib import Path

import pytest

from srb.cli import main as cli
from srb.config.settings import Settings
from tools import coming_from, command_line, file_list, generated
from tools.default_config import render

ROOT = Path(__file__).parents[2]
DEFAULTS = ROOT / "config" / "default.toml"


def test_default_toml_holds_every_setting_with_its_default() -> None:
    assert tomllib.loads(DEFAULTS.read_text()) == Settings().model_dump()


def test_default_toml_is_what_settings_say_of_themselves() -> None:
    assert DEFAULTS.read_text() == render(), "run: python -m tools.generated"


def test_the_tables_of_fields_are_what_the_fields_say_of_themselves() -> None:
    api, compatibility = generated.API.read_text(), generated.COMPATIBILITY.read_text()
    assert api == generated.api_page(api), "run: python -m tools.generated"
    assert compatibility == generated.compatibility_page(compatibility), "run: python -m tools.generated"


def test_completions_and_manual_are_what_the_commands_say_of_themselves() -> None:
    for path, made in (
        (command_line.BASH, command_line.completion("bash")),
        (command_line.ZSH, command_line.completion("zsh")),
        (command_line.FISH, command_line.completion("fish")),
        (command_line.MAN, command_line.man()),
    ):
        assert path.read_text() == made, "run: python -m tools.generated"


def test_the_profiles_and_defaults_of_coming_from_are_those_of_the_code() -> None:
    page = generated.COMING_FROM.read_text()
    assert page == coming_from.page(page), "run: python -m tools.generated"


def test_every_module_says_in_a_sentence_what_it_is_for() -> None:
    assert "| `flags.py` | llama-server's options as options of `srb serve`" in file_list.render()


def test_a_row_of_a_field_that_is_missing_or_wrong_is_written_anew() -> None:
    api = generated.API.read_text()
    without = re.sub(r"(?m)^\| `(?:top_p|seed`, `sampler_seed|trim_stop)` \|.*\n", "", api)
    assert without.count("\n") == api.count("\n") - 3
    for wrong in (
        api.replace("| `min_p` | clamped to 0 … 1 | 0.05 |", "| `min_p` | clamped to 0 … 2 | 0.5 |"),
        api.replace("| `typical_p`, `typical` |", "| `typical_p` |"),
        without,
    ):
        assert wrong != api
        assert sorted(generated.api_page(wrong).splitlines()) == sorted(api.splitlines())


def test_a_row_of_no_field_is_refused() -> None:
    wrong = generated.API.read_text().replace("| `top_k` |", "| `top_q` |")
    with pytest.raises(ValueError, match="has a row of `top_q`, which is no field"):
        generated.api_page(wrong)


def test_the_front_ends_of_the_page_are_those_whose_requests_are_tested() -> None:
    table = (ROOT / "docs" / "front-ends.md").read_text().partition("|---|")[2].partition("\n\n")[0]
    rows = [line.split("|")[1].strip() for line in table.splitlines() if line.startswith("| ")]
    requests = tomllib.loads((ROOT / "tests" / "e2e" / "front_ends" / "requests.toml").read_text())["request"]
    assert rows == list(dict.fromkeys(each["client"] for each in requests))


def test_every_setting_says_what_it_means() -> None:
    assert [name for name, field in Settings.model_fields.items() if not field.description] == []


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
