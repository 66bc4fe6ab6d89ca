"""Profiles: the settings of each, those that give way to values given by hand, and the tables of docs/coming-from.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest

from srb.cli.options import table
from srb.config.profiles import PROFILES, ProfileName
from srb.config.settings import Settings
from srb.errors import ConfigError
from srb.web.dialects.legacy.body import DialogueBody, StreamBody
from srb.web.dialects.llamacpp.body import SystemPrompt
from srb.welcome import first_screen
from tools import coming_from

PAGE = (Path(__file__).parents[2] / "docs" / "coming-from.md").read_text()
SECTIONS = coming_from.servers(PAGE)
ROWS = [(heading, row) for heading, section in SECTIONS.items() for row in coming_from.rows(section)]


def load(environ: dict[str, str], **flags: str) -> Settings:
    return Settings.load(flags, environ)


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        ("none", {}),
        ("llama-srb-api", {"port": 9090, "n": 8, "completions_format": "srb"}),
        (
            "llama-server",
            {
                "port": 8080, "n": 1, "completions_format": "openai", "n_ctx": 512, "context_shift": True,
                "repeat_penalty": 1.1, "client_timeout": 600, "metrics": False, "log_format": "json",
            },
        ),
        ("rust", {"port": 8080, "n": 1, "n_ctx": 2048, "repeat_penalty": 1.3}),
        ("cria", {"port": 3000, "n": 1, "completions_format": "openai-stream"}),
    ],
)  # fmt: skip
def test_a_profile_sets_its_settings_and_no_others(profile: str, expected: dict[str, Any]) -> None:
    settings = load({"SRB_PROFILE": profile})
    assert settings.model_dump() == {**Settings().model_dump(), **expected, "profile": profile}
    assert settings.in_profile == expected


def test_every_name_of_a_profile_has_a_row_in_the_table() -> None:
    assert set(get_args(ProfileName)) == set(PROFILES)
    for given in PROFILES.values():
        assert given.keys() <= Settings.model_fields.keys() - {"profile"}


def test_a_profile_comes_from_the_file_the_environment_or_an_option(tmp_path: Path) -> None:
    (tmp_path / "srb.toml").write_text('profile = "cria"\n')
    environ = {"SRB_CONFIG": str(tmp_path / "srb.toml")}
    assert load(environ).port == 3000
    assert load(environ | {"SRB_PROFILE": "rust"}).port == 8080
    assert load(environ | {"SRB_PROFILE": "rust"}, profile="llama-srb-api").port == 9090
    assert load(environ, profile="none") == Settings()


def test_a_setting_given_anywhere_wins_over_the_profile(tmp_path: Path) -> None:
    (tmp_path / "srb.toml").write_text("port = 1\nn_ctx = 1024\nn = 2\n")
    environ = {"SRB_CONFIG": str(tmp_path / "srb.toml"), "SRB_N_CTX": "2048", "SRB_N": "3"}
    settings = load(environ, profile="llama-server", n="4")
    assert (settings.port, settings.n_ctx, settings.n) == (1, 2048, 4)
    assert settings.completions_format == "openai"
    assert not {"port", "n_ctx", "n"} & settings.in_profile.keys()


@pytest.mark.parametrize("name", ["vllm", "", "LLAMA-SERVER"])
def test_an_unknown_profile_is_refused_with_the_names(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load({"SRB_PROFILE": name})
    names = "'none', 'llama-srb-api', 'llama-server', 'rust' or 'cria'"
    assert caught.value.message == f"profile (from SRB_PROFILE): Input should be {names}, got {name!r}"


def test_a_profile_that_is_no_string_is_refused(tmp_path: Path) -> None:
    (tmp_path / "srb.toml").write_text('profile = ["cria"]\n')
    with pytest.raises(ConfigError, match="profile"):
        load({"SRB_CONFIG": str(tmp_path / "srb.toml")})


def test_the_first_screen_names_the_profile_and_what_it_set() -> None:
    url = "http://127.0.0.1:1"
    assert "Profile" not in first_screen(url, Settings())
    assert "8 branches per prompt" in first_screen(url, Settings())
    screen = first_screen(url, load({"SRB_PROFILE": "rust", "SRB_PORT": "1"}))
    assert "1 branch per prompt by default.\n  Profile rust: n 1, n_ctx 2048, repeat_penalty 1.3.\n" in screen
    screen = first_screen(url, load({"SRB_PROFILE": "llama-server"}))
    [line] = [line for line in screen.splitlines() if "Profile" in line]
    assert "metrics off" in line
    by_hand = {"SRB_PROFILE": "cria", "SRB_PORT": "1", "SRB_N": "2", "SRB_COMPLETIONS_FORMAT": "srb"}
    assert "  Profile cria: nothing, all of it was given other values.\n" in first_screen(url, load(by_hand))


def test_a_profile_leaves_the_routes_of_2023_their_own_defaults() -> None:
    settings = Settings(profile="llama-server")
    dialogue = DialogueBody.read({"prompt": "Hello", "anti_prompt": "Human:"}, settings, SystemPrompt())
    assert dialogue.command(settings, -1).branches[0].sampling.temperature == 0.1
    assert dialogue.stop == ("Human:",)
    settings = Settings(profile="rust")
    assert (
        StreamBody.read({"prompt": "Once"}, settings).command(settings, 32).branches[0].sampling.repeat_penalty == 1.3
    )


# docs/coming-from.md -------------------------------------------------------------------------------------------------


def test_there_are_five_servers_with_tables() -> None:
    assert len(SECTIONS) == 5
    assert {coming_from.profile_of(section) for section in SECTIONS.values()} == set(PROFILES) - {"none"}
    assert all(coming_from.rows(section) for section in SECTIONS.values())


def test_every_setting_of_a_profile_has_a_row_in_its_servers_table() -> None:
    found: dict[str, set[str]] = {}
    for section in SECTIONS.values():
        names = {name for row in coming_from.rows(section) for name in coming_from.settings_of(row[2])}
        found.setdefault(coming_from.profile_of(section), set()).update(names)
    for profile, names in found.items():
        assert PROFILES[profile].keys() <= names, profile


@pytest.mark.parametrize(("heading", "row"), ROWS, ids=lambda part: part if isinstance(part, str) else part[0])
def test_a_row_names_options_that_are_there_and_explains_a_default_that_differs(heading: str, row: list[str]) -> None:
    assert len(row) == 6
    there, default, here, _, with_profile, remark = row
    for word in (word for word in here.split("`")[1::2] if word.startswith("-")):
        assert word in table(), word
    theirs = {word for word in there.split("`")[1::2] if word.startswith("-")} & table().keys()
    if here == "no effect" and theirs:
        assert all(flag.why for word in theirs for flag in table()[word]), there
    if default != "not stated" and not is_same(default, with_profile):
        assert remark, f"{heading}: {there} is {default} there and {with_profile} here"


def is_same(there: str, here: str) -> bool:
    try:
        return float(there) == float(here)
    except ValueError:
        return there == here
