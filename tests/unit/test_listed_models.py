"""The list of several models: names, files, the default, and settings that do not go with it."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from srb.config.settings import Settings
from srb.errors import ConfigError
from srb.models.listed import OWN_SETTINGS, ListedModel, default_model, list_models, resolve


def load(tmp_path: Path, **settings: str) -> Settings:
    environ = {f"SRB_{name.upper()}": value for name, value in settings.items()}
    return Settings.load(environ={"SRB_RUNTIME_DIR": str(tmp_path / "run"), **environ})


def touch(*paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        path.touch()


def test_a_folder_has_its_files_its_split_models_and_its_folders(tmp_path: Path) -> None:
    touch(tmp_path / "B.gguf", tmp_path / "a,1.gguf", tmp_path / "mmproj-a.gguf", tmp_path / "notes.txt")
    touch(*(tmp_path / f"parts-{part:05d}-of-00002.gguf" for part in (1, 2)))
    touch(tmp_path / "seer" / "weights.gguf", tmp_path / "seer" / "mmproj-f16.gguf", tmp_path / "empty" / "readme.md")
    assert list(list_models(load(tmp_path, models=str(tmp_path))).values()) == [
        ListedModel("a_1", str(tmp_path / "a,1.gguf")),
        ListedModel("B", str(tmp_path / "B.gguf")),
        ListedModel("parts", str(tmp_path / "parts-00001-of-00002.gguf")),
        ListedModel(
            "seer", str(tmp_path / "seer" / "weights.gguf"), {"mmproj": str(tmp_path / "seer" / "mmproj-f16.gguf")}
        ),
    ]


def test_a_list_has_paths_and_names(tmp_path: Path) -> None:
    settings = load(tmp_path, models="/models/x=1/one.gguf, two=/models/other.gguf,fake=fake:25")
    assert list_models(settings) == {
        "one": ListedModel("one", "/models/x=1/one.gguf"),
        "two": ListedModel("two", "/models/other.gguf"),
        "fake": ListedModel("fake", "fake:25"),
    }


def test_a_list_may_be_a_list_in_the_settings_file(tmp_path: Path) -> None:
    (tmp_path / "srb.toml").write_text('models = ["/models/one.gguf", "two=/models/two.gguf"]\n')
    settings = Settings.load(environ={"SRB_CONFIG": str(tmp_path / "srb.toml")})
    assert list(list_models(settings)) == ["one", "two"]


def test_equal_names_and_empty_folders_are_errors(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="same name, one; give one another with NAME=PATH"):
        list_models(load(tmp_path, models="/a/one.gguf,/b/one.gguf"))
    with pytest.raises(ConfigError, match="no GGUF file in the folder"):
        list_models(load(tmp_path, models=str(tmp_path)))
    with pytest.raises(ConfigError, match="is a folder"):
        list_models(load(tmp_path, models=f"/a/one.gguf,{tmp_path}"))


LONG = "x" * 300 + ".gguf"


@pytest.mark.parametrize(
    ("models", "message"),
    [
        (LONG, "x…: the path is too long"),
        (f"/m/a.gguf,{LONG}", "x…: the path is too long"),
        (f"a={LONG}", "x…: the path is too long"),
        ("x" * 300, "x…: the path is too long"),
        ("/" + "x/" * 3000 + "a.gguf", "x…: the path is too long"),
        (f'["/m/a.gguf", "{LONG}"]', "x…: the path is too long"),
        (f'[{{"name": "a", "model": "{LONG}"}}]', "x…: the path is too long"),
        ("~nobody-has-this-name/a.gguf", "~nobody-has-this-name/a.gguf: there is no home folder ~nobody"),
        ('["/m/a.gguf", "~nobody-has-this-name/b"]', "~nobody-has-this-name/b: there is no home folder ~nobody"),
        ('[{"name": "a", "model": "/m/\\u0000.gguf"}]', "embedded null byte"),
        ('{"a": {"model": "/m.gguf"}}', "should be a JSON list of paths and of tables"),
        ('{"name": "a", "model": "/m/a.gguf"}', "should be a JSON list of paths and of tables"),
        (' { "a"', "should be a JSON list of paths and of tables"),
        ("{}", "should be a JSON list of paths and of tables"),
        ('["a"', "should be a JSON list of paths and of tables"),
    ],
)
def test_an_item_that_names_no_path_is_one_line(tmp_path: Path, models: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        list_models(load(tmp_path, models=models))
    assert caught.value.message.startswith("models: ")
    assert message in caught.value.message
    assert len(caught.value.message) < 200


def test_a_file_that_is_not_there_yet_or_cannot_be_read_is_told_when_it_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "lstat", refuse)
    assert list(list_models(load(tmp_path, models="/m/{a}.gguf,b=/m/b.gguf"))) == ["{a}", "b"]


def test_the_default_cannot_be_a_path_that_no_file_has(tmp_path: Path) -> None:
    settings = load(tmp_path, models="/m/one.gguf", model=f"/{'x' * 5000}")
    with pytest.raises(ConfigError, match=r"model: /x+…: the path is too long"):
        default_model(settings, list_models(settings))


def test_the_default_is_the_first_or_the_one_that_model_names(tmp_path: Path) -> None:
    models = "/m/one.gguf,/m/two.gguf"
    for model, default in (("", "one"), ("two", "two"), ("/m/two.gguf", "two"), ("/m/../m/two.gguf", "two")):
        settings = load(tmp_path, models=models, model=model)
        assert default_model(settings, list_models(settings)) == default
    settings = load(tmp_path, models=models, model="/m/three.gguf")
    with pytest.raises(ConfigError, match=r"/m/three.gguf is not among models, which has one, two"):
        default_model(settings, list_models(settings))


def test_each_engine_has_its_own_model_and_folder(tmp_path: Path) -> None:
    settings = load(tmp_path, models="/m/one.gguf,/m/two.gguf", n_ctx="4096")
    one, two = (each.settings(settings) for each in list_models(settings).values())
    assert (one.model, one.model_alias, one.models, one.n_ctx) == ("/m/one.gguf", "one", "", 4096)
    assert one.runtime_path.parent == two.runtime_path.parent == settings.runtime_path
    assert one.runtime_path != two.runtime_path
    again = Settings.load(environ=list_models(settings)["one"].environ(settings) | {"SRB_N_CTX": "4096"})
    assert again == one


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("cluster", "auto", "exclude each other"),
        ("engine_managed", "false", "needs engine_managed"),
        ("alias", "x", "alias"),
        ("mmproj", "/m/mmproj.gguf", "mmproj fits one model; with models, give it in the table"),
        ("spec_draft_model", "/m/small.gguf", "spec_draft_model fits one model"),
        ("lora", "/m/lora.gguf=0.5", "lora fits one model"),
    ],
)
def test_settings_of_one_model_are_refused(tmp_path: Path, setting: str, value: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(tmp_path, models="/m/one.gguf", **{setting: value})


def test_a_name_is_found_without_case_and_with_ollamas_tag() -> None:
    names = ["Qwen3", "qwen3:8b"]
    assert resolve("Qwen3", names) == resolve("qwen3:latest", names) == resolve("QWEN3", names) == "Qwen3"
    assert resolve("qwen3:8B", names) == "qwen3:8b"
    assert resolve("qwen", names) is None


TABLES = """
models = [
    "/m/plain.gguf",
    { name = "small", model = "/m/small.gguf", n_ctx = 4096, cache_type_k = "q8_0", mmap = false, temperature = 0.5 },
    { model = "/m/large.gguf", chat_template = "llama3", spec_draft_model = "/m/small.gguf", stall_timeout = 600 },
]
n_ctx = 2048
"""


def of_toml(tmp_path: Path, text: str) -> Settings:
    (tmp_path / "srb.toml").write_text(text)
    return Settings.load(environ={"SRB_CONFIG": str(tmp_path / "srb.toml"), "SRB_RUNTIME_DIR": str(tmp_path / "run")})


def test_a_model_has_the_settings_of_its_table_and_else_the_servers(tmp_path: Path) -> None:
    settings = of_toml(tmp_path, TABLES)
    models = list_models(settings)
    assert list(models) == ["plain", "small", "large"]
    plain, small, large = (each.settings(settings) for each in models.values())
    assert (plain.n_ctx, small.n_ctx, large.n_ctx) == (2048, 4096, 2048)
    assert (small.cache_type_k, small.mmap, small.temperature) == ("q8_0", "off", 0.5)  # type: ignore[attr-defined]
    assert (large.chat_template, large.has_draft_model, large.stall_timeout) == ("llama3", True, 600)
    environ = {"SRB_CONFIG": str(tmp_path / "srb.toml"), **models["small"].environ(settings)}
    assert Settings.load(environ=environ) == small, "the engine reads the same from its variables"


def test_tables_of_tables_and_json_in_a_variable_are_the_same_list(tmp_path: Path) -> None:
    toml = of_toml(
        tmp_path, '[[models]]\nname = "a"\nmodel = "/m/a.gguf"\nn_ctx = 512\n\n[[models]]\nmodel = "/m/b.gguf"\n'
    )
    json = load(tmp_path, models='[{"name": "a", "model": "/m/a.gguf", "n_ctx": "512"}, "/m/b.gguf"]')
    assert list_models(toml) == list_models(json)
    assert list_models(json)["a"].own == {"n_ctx": 512}


def test_a_table_without_a_model_gives_settings_to_one_of_the_folder(tmp_path: Path) -> None:
    touch(tmp_path / "m" / "one.gguf", tmp_path / "m" / "two.gguf")
    settings = of_toml(tmp_path, f'models = ["{tmp_path}/m", {{ name = "two", n_ctx = 512 }}]')
    assert [(name, dict(each.own)) for name, each in list_models(settings).items()] == [
        ("one", {}),
        ("two", {"n_ctx": 512}),
    ]


def test_a_model_has_the_names_of_its_alias_after_its_own(tmp_path: Path) -> None:
    models = '[{"name": "a", "model": "/m/a.gguf", "alias": "gpt-4o, x,a"}, {"name": "b", "model": "/m/b.gguf"}]'
    settings = load(tmp_path, models=models, model="x")
    listed = list_models(settings)
    assert [each.names for each in listed.values()] == [["a", "gpt-4o", "x"], ["b"]]
    assert listed["a"].settings(settings).model_aliases == ["a", "gpt-4o", "x"]
    assert Settings.load(environ=listed["a"].environ(settings)).alias == "a,gpt-4o,x"
    assert default_model(settings, listed) == "a"


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        (
            '[{"name": "a", "model": "/m/a.gguf", "n_ctx": -1}]',
            r"models: a: n_ctx: .*greater than or equal to 0, got -1",
        ),
        (
            '[{"name": "a", "model": "/m/a.gguf", "n_ctxx": 1}]',
            r"models: a: unknown setting 'n_ctxx'; did you mean n_ctx\?",
        ),
        ('[{"name": "a", "model": "/m/a.gguf", "port": 1}]', "models: a: port: is a setting of the server"),
        ('[{"name": "a", "model": "/m/a.gguf", "spec_type": "draft"}]', "models: a: settings: spec_type draft needs"),
        ('[{"name": "a", "model": 1}]', "models: a: model: should be a text, got 1"),
        (
            '[{"name": "a", "model": "/m/a.gguf", "alias": "b"}, {"name": "b", "model": "/m/b.gguf"}]',
            "models: a and b both have the name b; see their alias",
        ),
        (
            '[{"name": "a", "model": "/m/a.gguf", "alias": "c"}, {"name": "b", "model": "/m/b.gguf", "alias": "d,c"}]',
            "models: a and b both have the name c; see their alias",
        ),
        ('[{"name": "a", "model": "/m/a.gguf", "alias": ["b"]}]', "models: a: alias: should be a text"),
        ('[{"name": "a,b", "model": "/m/a.gguf"}]', "models: a,b: name: has a comma"),
        ('[{"n_ctx": 1}]', "models: entry 1: has neither a name nor a model"),
        ('["/m/a.gguf", {"name": "b"}]', "models: b: needs model, the path of its file; the list has a without"),
        ('[{"name": "a", "model": "x.gguf"}, {"name": "a", "model": "y.gguf"}]', "have the same name, a"),
        ('[{"name": "a", ]', "models: should be a JSON list"),
        ("[]", "models: has no model"),
        (",", "models: has no model"),
    ],
)
def test_a_wrong_table_is_refused_with_the_model_and_the_field(tmp_path: Path, tables: str, message: str) -> None:
    settings = load(tmp_path, models=tables)
    with pytest.raises(ConfigError, match=message):
        list_models(settings)


def test_every_setting_of_a_model_is_one_and_none_is_the_servers() -> None:
    assert Settings.model_fields.keys() > OWN_SETTINGS
    assert {"n_ctx", "cache_type_k", "chat_template", "mmproj", "spec_draft_model", "temperature"} <= OWN_SETTINGS
    assert not {"port", "api_key", "models", "max_engines", "model", "max_n", "runtime_dir"} & OWN_SETTINGS
