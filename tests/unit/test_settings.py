"""Settings: what wins over what, and that whatever is wrong is named together with where it came from."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from srb.config.named_models import BUNDLED_MODEL
from srb.config.settings import _FORMER, Settings
from srb.errors import ConfigError
from srb.files.gguf import check_adapter_files
from srb.models.listed import list_models


def write(path: Path, text: str) -> dict[str, str]:
    path.write_text(text)
    return {"SRB_CONFIG": str(path)}


def test_the_environment_wins_over_the_file_and_a_flag_over_both(tmp_path: Path) -> None:
    environ = write(tmp_path / "srb.toml", "port = 1\nworkers = 2\nn = 3\n")
    environ |= {"SRB_WORKERS": "4", "SRB_N": "5"}
    settings = Settings.load({"n": "6"}, environ)
    assert (settings.port, settings.workers, settings.n) == (1, 4, 6)


@pytest.mark.parametrize(
    ("given", "said"), [("true", "on"), ("false", "off"), ('"off"', "off"), ('"auto"', "auto"), ("1", "on")]
)
def test_a_setting_that_is_on_off_or_auto_takes_booleans(tmp_path: Path, given: str, said: str) -> None:
    assert Settings.load({}, write(tmp_path / "srb.toml", f"swa_full = {given}\n")).swa_full == said
    assert Settings.load({"swa_full": given.strip('"')}, {}).swa_full == said


def test_variables_of_other_programs_are_left_alone() -> None:
    assert Settings.load({}, {"PATH": "/bin", "srb_n": "x", "XSRB_N": "2"}) == Settings()


LINKS = {  # of the Services `srb` and `srb-web`, as Kubernetes sets them in each pod
    "SRB_SERVICE_HOST": "10.96.7.7",
    "SRB_SERVICE_PORT": "80",
    "SRB_SERVICE_PORT_HTTP": "80",
    "SRB_PORT": "tcp://10.96.7.7:80",
    "SRB_PORT_80_TCP": "tcp://10.96.7.7:80",
    "SRB_PORT_80_TCP_PROTO": "tcp",
    "SRB_PORT_80_TCP_ADDR": "10.96.7.7",
    "SRB_WEB_SERVICE_HOST": "10.96.8.8",
    "SRB_WEB_PORT": "udp://10.96.8.8:53",
    "SRB_WEB_PORT_53_UDP_PORT": "53",
}


def test_what_kubernetes_says_of_services_is_no_setting() -> None:
    pod = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "SRB_N": "3", **LINKS}
    assert Settings.load({}, pod) == Settings(n=3)
    assert Settings.load({}, pod | {"SRB_PORT": "9191"}).port == 9191
    with pytest.raises(ConfigError, match="unknown setting 'wbe_port'"):
        Settings.load({}, pod | {"SRB_WBE_PORT": "1"})
    with pytest.raises(ConfigError, match=r"port \(from SRB_PORT\).*unknown setting 'service_host'"):
        Settings.load({}, LINKS)  # outside of a pod


@pytest.mark.parametrize(
    ("flags", "environ", "message"),
    [
        ({"n_cxt": "1"}, {}, "unknown setting 'n_cxt' (from --n-cxt)"),
        ({}, {"SRB_N_CXT": "1"}, "unknown setting 'n_cxt' (from SRB_N_CXT)"),
        ({"port": "70000"}, {}, "port (from --port): Input should be less than or equal to 65535, got '70000'"),
        ({}, {"SRB_FLASH_ATTN": "maybe"}, "flash_attn (from SRB_FLASH_ATTN): Input should be 'auto', 'on' or 'off'"),
        ({"tensor_split": "3,x"}, {}, "tensor_split (from --tensor-split): should be numbers separated by commas"),
        ({"stop": '["a", 1]'}, {}, "stop (from --stop): should be a string, or a JSON list of strings"),
        ({"json_schema": "{"}, {}, "json_schema (from --json-schema): should be JSON"),
        ({"logit_bias": "5+inf"}, {}, "logit_bias (from --logit-bias): should be token ids with a bias"),
        ({"grammar": "x", "json_schema": "{}"}, {}, "grammar and json_schema exclude each other"),
        ({"n": "9", "max_n": "8"}, {}, "n (9) is more than max_n (8)"),
        ({"spec_type": "both"}, {}, "spec_type both needs spec_draft_model, the path of a GGUF file"),
        (
            {"spec_draft_n_min": "17"},
            {},
            "spec_draft_n_min (from --spec-draft-n-min) is no setting any more, leave it out",
        ),
        (
            {"image_min_tokens": "9", "image_max_tokens": "8"},
            {},
            "image_min_tokens (9) is more than image_max_tokens (8)",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_source(flags: dict[str, str], environ: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Settings.load(flags, environ)
    assert message in caught.value.message
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    ("given", "has_drafts", "has_model"),
    [
        ({}, False, False),
        ({"spec_type": "ngram"}, True, False),
        ({"spec_draft_model": "d.gguf"}, True, True),
        ({"spec_draft_model": "d.gguf", "spec_type": "both"}, True, True),
        ({"spec_draft_model": "d.gguf", "spec_type": "ngram"}, True, False),
        ({"spec_draft_model": "d.gguf", "spec_type": "none"}, False, False),
        ({"spec_draft_model": "d.gguf", "spec_type": "mtp"}, True, True),
        ({"spec_type": "ngram-mtp"}, True, False),
    ],
)
def test_a_draft_model_drafts_unless_another_type_is_set(
    given: dict[str, str], has_drafts: bool, has_model: bool
) -> None:
    settings = Settings.load(given, {})
    assert (settings.has_drafts, settings.has_draft_model) == (has_drafts, has_model)


def test_the_draft_model_has_the_settings_of_the_model_but_for_its_own() -> None:
    own = {"spec_draft_model": "d.gguf", "spec_type": "ngram-mtp", "n_gpu_layers": 0, "cache_type_k": "q8_0"}
    of_draft = Settings(model="m.gguf", n_ctx=100, lora="l.gguf", mmproj="p.gguf", embedding=True, **own).of_draft_model
    assert (of_draft.model, of_draft.n_ctx, of_draft.n_gpu_layers, of_draft.cache_type_k) == ("d.gguf", 100, 0, "q8_0")
    assert (of_draft.lora, of_draft.mmproj, of_draft.embedding, of_draft.swa_full) == ("", "", False, "on")
    assert not of_draft.has_drafts
    assert Settings(model="m.gguf", n_gpu_layers=3).of_draft_model.n_gpu_layers == -1, "a small model has room whole"


@pytest.mark.parametrize("content", [None, b"no model"])
def test_a_file_that_cannot_be_a_draft_model_is_named_before_the_start(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "draft.gguf"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"^spec_draft_model: "):
        check_adapter_files(Settings(spec_draft_model=str(path)))
    check_adapter_files(Settings(spec_draft_model=str(path), spec_type="ngram"))


def test_every_wrong_setting_is_named_at_once(tmp_path: Path) -> None:
    environ = write(tmp_path / "srb.toml", "prot = 1\n") | {"SRB_WORKERS": "0"}
    with pytest.raises(ConfigError) as caught:
        Settings.load({}, environ)
    assert "prot" in caught.value.message
    assert "srb.toml" in caught.value.message
    assert "workers (from SRB_WORKERS)" in caught.value.message


@pytest.mark.parametrize(("text", "message"), [("port = ", "is not valid TOML"), ("\0", "is not valid TOML")])
def test_a_file_that_is_not_toml_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Settings.load({}, write(tmp_path / "srb.toml", text))


def test_a_file_that_is_missing_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        Settings.load({}, {"SRB_CONFIG": str(tmp_path / "nowhere.toml")})


def test_the_bundled_model_is_the_default() -> None:
    assert Settings().model_path == BUNDLED_MODEL
    assert Settings().model_alias == "storyteller"
    assert Settings(model="/models/some.Q4.gguf").model_alias == "some.Q4"
    assert Settings(model="/models/some.Q4.gguf", alias="mine").model_alias == "mine"
    assert Settings(alias="mine, gpt-4").model_aliases == ["mine", "gpt-4"]
    assert Settings(alias="mine, gpt-4").model_alias == "mine"


def test_each_port_has_a_runtime_folder_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    assert Settings(port=1).runtime_path != Settings(port=2).runtime_path
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/7")
    assert Settings(port=1).socket_path == Path("/run/user/7/srb-1/engine.sock")
    assert Settings(runtime_dir="/run/srb").socket_path == Path("/run/srb/engine.sock")


def test_no_former_setting_is_one_again_and_each_has_its_line() -> None:
    assert not _FORMER.keys() & Settings.model_fields.keys()
    for name, instead in _FORMER.items():
        with pytest.raises(ConfigError) as caught:
            Settings.load({}, {f"SRB_{name.upper()}": "1"})
        assert caught.value.message == (
            f"{name} (from SRB_{name.upper()}) is no setting any more, leave it out: {instead}"
        )


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Settings().port = 1


# The settings that are paths or have some, each with a text that has one.
PATHS = {
    **dict.fromkeys(("model", "static_path", "stories", "log_file", "api_key_file", "system_prompt_file"), "~/x"),
    **dict.fromkeys(
        ("chat_template_file", "mmproj", "media_path", "state_dir", "cache_disk", "spec_draft_model"), "~/x"
    ),
    **dict.fromkeys(
        ("runtime_dir", "ssl_key_file", "ssl_cert_file", "door_token_file", "replicas", "usage_file"), "~/x"
    ),
    "host": "127.0.0.1, ~/x",
    "control_vector": "~/x=0.5, ~/x",
    "control_vector_dir": "~/x",
    "lora": "~/x=0.5, ~/x",
    "models": "~/x, b=~/x",
}
NO_PATHS = {"alias", "api_prefix", "cache_disk_mib", "image_min_tokens", "image_max_tokens", "mmap", "state_dir_mib"}


def test_each_setting_that_speaks_of_a_file_or_a_folder_is_known_as_a_path_or_as_none() -> None:
    speaks = re.compile(r"\b(files?|folders?|paths?)\b", re.IGNORECASE)
    found = {name for name, field in Settings.model_fields.items() if speaks.search(field.description or "")}
    assert found - NO_PATHS <= PATHS.keys(), "a setting that is a path has to stand in PATHS"


@pytest.mark.parametrize("name", PATHS)
def test_a_home_folder_may_begin_each_path(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    others = {"ssl_key_file": "ssl_cert_file", "ssl_cert_file": "ssl_key_file"}
    settings = Settings(**{name: PATHS[name], **({others[name]: "/x"} if name in others else {})})
    match name:
        case "lora":
            found: object = [str(path) for path, _ in settings.adapters]
        case "control_vector":
            found = [str(path) for path, _ in settings.control_vectors]
        case "models":
            found = [each.model for each in list_models(settings).values()]
        case "host":
            found = [*settings.hosts[1:]] * 2
        case _:
            found = [getattr(settings, name)] * 2
    assert found == [str(tmp_path / "x")] * 2


def test_the_config_files_path_may_begin_with_a_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    write(tmp_path / "srb.toml", "n = 3")
    assert Settings.load({}, {"SRB_CONFIG": "~/srb.toml"}).n == 3


@pytest.mark.parametrize(
    "given", [{"SRB_RUNTIME_DIR": "~nobody-of-this-name/x"}, {"SRB_LORA": "/a,~nobody-of-this-name/x=2"}]
)
def test_a_home_folder_that_does_not_exist_is_named(given: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="there is no home folder ~nobody-of-this-name"):
        Settings.load({}, given)
