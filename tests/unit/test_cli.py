"""`srb serve`: flags become variables, gunicorn takes over; whatever is wrong is one line and exit status 2."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from srb.cli import main as cli
from srb.cli.flags import BEFORE_START, FLAGS, Flag
from srb.cli.options import read_options, table
from srb.config.settings import Settings

COMING_FROM = Path(__file__).parents[2] / "docs" / "coming-from.md"
KNOWN = Path(__file__).parent / "llama_server_flags.txt"


class Executed(Exception):
    """Stands for the exec that ends this process's program."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str]) -> None:
        self.command, self.environ = list(command), dict(environ)


def is_ours(variable: str) -> bool:
    return variable.startswith(("SRB_", "LLAMA_", "HF_", "MTMD_"))


@pytest.fixture(autouse=True)
def no_exec(monkeypatch: pytest.MonkeyPatch) -> None:
    def execve(path: str, command: Sequence[str], environ: Mapping[str, str]) -> None:
        assert path == sys.executable
        raise Executed(command, environ)

    monkeypatch.setattr(os, "execve", execve)
    monkeypatch.setattr(cli, "choose", lambda settings, **how: {})  # tests/unit/test_named_models.py
    for name in filter(is_ours, list(os.environ)):
        monkeypatch.delenv(name)


def serve(*flags: str) -> Settings:
    """Return the settings that the server would load."""
    with pytest.raises(Executed) as executed:
        cli.main(["serve", *flags])
    return Settings.load({}, executed.value.environ)


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == 2
    text = capsys.readouterr().err
    assert text.startswith("srb: ")
    assert text.count("\n") == 1
    return text


def test_without_flags_the_defaults_are_served() -> None:
    assert serve() == Settings()


def test_the_flags_of_the_first_server_of_this_kind_mean_the_same() -> None:
    settings = serve("--model", "m.gguf", "--port", "1234", "--n", "4")
    assert (settings.model, settings.port, settings.n) == ("m.gguf", 1234, 4)


def test_llama_servers_names_mean_the_same() -> None:
    flags = "-m m.gguf -c 100 -b 64 -ub 32 -ngl all -t 3 -tb 4 -fa -ctk q8_0 -ctv q4_0 -a mine --host :: -mg 1 -sm row"
    settings = serve(*flags.split(), "-ts", "3,1", "--mlock", "--no-mmap", "--no-metrics", "--predict", "7")
    assert settings == Settings(
        model="m.gguf", n_ctx=100, n_batch=64, n_ubatch=32, n_gpu_layers=-1, threads=3, threads_batch=4,
        flash_attn="on", cache_type_k="q8_0", cache_type_v="q4_0", alias="mine", host="::", main_gpu=1,
        split_mode="row", tensor_split="3,1", mlock=True, mmap="off", metrics=False, default_max_tokens=7,
    )  # fmt: skip


def test_the_flags_of_the_rust_server_mean_the_same() -> None:
    flags = (
        "-m m.bin -P 8081 -f --num-threads 2 --num-ctx-tokens 512 --batch-size 8 --repeat-last-n 9 -p 1.2 -T 0.7 -k 50"
    )
    assert serve(*flags.split(), "--top-p", "0.9") == Settings(
        model="m.bin", port=8081, threads=2, n_ctx=512, n_batch=8, repeat_last_n=9, repeat_penalty=1.2, temperature=0.7,
        top_k=50, top_p=0.9,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("flags", "settings"),
    [
        (["--ctx_size", "9"], {"n_ctx": 9}),
        (["--port=80"], {"port": 80}),
        (["-n", "-1"], {"default_max_tokens": -1}),
        (["--top-nsigma", "-1.5"], {"top_n_sigma": -1.5}),
        (["--alias", "--strange"], {"alias": "--strange"}),
        (["-a", "first,second", "-a", "third"], {"alias": "first,second,third"}),
        (["-np", "4"], {"parallel": 4}),
        (["--parallel", "-1"], {"parallel": -1}),
        (["-np", "auto"], {"parallel": -1}),
        (["-fa", "-m", "x"], {"flash_attn": "on", "model": "x"}),
        (["-fa", "0"], {"flash_attn": "off"}),
        (["-fa", "auto"], {"flash_attn": "auto"}),
        (["--swa-full", "-m", "x"], {"swa_full": "on", "model": "x"}),
        (["--swa-full", "off"], {"swa_full": "off"}),
        (["-lm", "mlock"], {"mmap": "off", "mlock": True}),
        (["-lm", "mmap+mlock"], {"mmap": "on", "mlock": True}),
        (["-lm", "none", "--mmap"], {"mmap": "on"}),
        (["-to", "600"], {"client_timeout": 600}),
        (["-ngl", "auto"], {"n_gpu_layers": -1}),
        (["-cram", "-1"], {"cache_ram_mib": 2**30}),
        (["--models-dir", "/m", "--models-max", "0"], {"models": "/m", "max_engines": 64}),
        (["--models-max", "3"], {"max_engines": 3}),
        (["--memory-f32"], {"cache_type_k": "f32", "cache_type_v": "f32"}),
        (["--path", "/srv"], {"static_path": "/srv"}),
        (["--slots-endpoint-disable"], {"slots": False}),
        (["--slots", "--no-slots"], {"slots": False}),
        (["--slot-save-path", "/var/states"], {"state_dir": "/var/states"}),
        (["-v"], {"log_level": "debug"}),
        (["-lv", "1"], {"log_level": "error"}),
        (["--log-disable"], {"log_level": "error"}),
        (["-r", "User:", "-r", "\\n\\q"], {"stop": '["User:","\\n\\\\q"]'}),
        (["--dry-sequence-breaker", "a", "--dry-sequence-breaker", "b"], {"dry_sequence_breakers": '["a","b"]'}),
        (["--dry-sequence-breaker", "none"], {"dry_sequence_breakers": "[]"}),
        (["--samplers", "top_k;min_p"], {"samplers": "top_k;min_p"}),
        (["--sampler-seq", "km"], {"samplers": "k;m"}),
        (["-l", "5+1.5", "-l", "7-inf"], {"logit_bias": "5+1.5,7-inf"}),
        (["--api-key", "a,b", "--api-key", "c"], {"api_key": "a,b,c"}),
        (["--lora", "a.gguf", "--lora-scaled", "b.gguf:0.5,c:d.gguf:2"], {"lora": "a.gguf,b.gguf=0.5,c:d.gguf=2"}),
        (
            ["--control-vector", "a.gguf", "--control-vector-scaled", "b.gguf:-0.5"],
            {"control_vector": "a.gguf,b.gguf=-0.5"},
        ),
        (["--control-vector-layer-range", "10", "20"], {"control_vector_layers": "10,20"}),
        (["--embeddings", "--rerank", "--pooling", "rank"], {"embedding": True, "reranking": True, "pooling": "rank"}),
        (["--rope-scale", "4", "--rope-scaling", "yarn"], {"rope_freq_scale": 0.25, "rope_scaling": "yarn"}),
        (["--keep", "-1", "--context-shift"], {"context_shift": True}),
        (["-rea", "0", "--reasoning-effort", "low"], {"reasoning": "off", "reasoning_effort": "low"}),
        (["-nkvo"], {"kv_offload": False}),
        (["--mirostat-lr", "0.2", "--mirostat-ent", "4"], {"mirostat_eta": 0.2, "mirostat_tau": 4.0}),
        (["-md", "d.gguf"], {"spec_draft_model": "d.gguf"}),
        (
            ["--model-draft", "d", "--draft-max", "9", "--draft-min", "2", "--draft-p-min", "0.5", "-ngld", "all"],
            {"spec_draft_model": "d"},
        ),
        (
            ["-md", "d", "-ngld", "3", "-ctkd", "q8_0", "-bs", "-bs", "on", "--backend-sampling=off"],
            {"spec_draft_model": "d"},
        ),
        (["-md", "d", "--spec-type", "draft-simple"], {"spec_draft_model": "d", "spec_type": "draft"}),
        (["-md", "d", "--spec-type", "ngram-simple,draft-simple"], {"spec_draft_model": "d", "spec_type": "both"}),
        (["--spec-type", "ngram-simple,ngram-mod"], {"spec_type": "ngram"}),
        (["--spec-type", "ngram-cache"], {"spec_type": "ngram"}),
        (["--spec-type", "draft-mtp"], {"spec_type": "mtp"}),
        (["-md", "d", "--spec-type", "draft-eagle3"], {"spec_draft_model": "d", "spec_type": "draft"}),
        (["-md", "d", "--spec-type", "ngram-mod,draft-dflash"], {"spec_draft_model": "d", "spec_type": "both"}),
        (["--spec-type", "ngram-mod,draft-mtp"], {"spec_type": "ngram-mtp"}),
    ],
)
def test_a_flag_sets_what_it_means(flags: list[str], settings: dict[str, Any]) -> None:
    assert serve(*flags) == Settings(**settings)


def test_a_grammar_comes_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "yes.gbnf").write_text('root ::= "yes"\n')
    assert serve("--grammar-file", str(tmp_path / "yes.gbnf")).grammar == 'root ::= "yes"\n'
    (tmp_path / "any.json").write_text('{"type": "object"}')
    assert serve("-jf", str(tmp_path / "any.json")).json_schema == '{"type": "object"}'


@pytest.mark.parametrize("name", sorted(Settings.model_fields.keys() - {"api_key"}))  # which cannot be empty
def test_every_setting_has_a_flag(name: str) -> None:
    field = Settings.model_fields[name]
    flag = name.replace("_", "-")
    if field.annotation is bool:
        changed = serve(f"--no-{flag}" if field.default else f"--{flag}")
        assert getattr(changed, name) is not field.default
    else:
        assert getattr(serve(f"--{flag}", str(field.default)), name) == field.default


# Every flag of llama-server ------------------------------------------------------------------------------------------


def spellings() -> list[tuple[str, Flag]]:
    return [(name, flag) for flag in FLAGS for name in (*flag.names.split(), *flag.off.split())]


def test_what_a_flag_sets_is_there() -> None:
    assert {flag.sets for flag in FLAGS if flag.sets} <= {*Settings.model_fields, *BEFORE_START}
    for flag in FLAGS:
        assert bool(flag.sets) != bool(flag.why), flag.names


def test_no_setting_has_the_name_of_a_flag_without_effect() -> None:
    idle = {name for name, flag in spellings() if flag.why}
    assert not idle & {"--" + name.replace("_", "-") for name in Settings.model_fields}


def test_a_spelling_has_one_meaning() -> None:
    for name, flags in table().items():
        assert len({(flag.switch, flag.words, bool(flag.optional), bool(flag.why)) for flag in flags}) == 1, name
        assert len({flag.sets for flag in flags}) == len(flags), name


def test_every_flag_and_variable_of_llama_server_is_known() -> None:
    listed = [line.split() for line in KNOWN.read_text().splitlines() if not line.startswith("#")]
    flags = {word for line in listed for word in line if word.startswith("-")}
    assert len(flags) > 400
    assert flags <= table().keys()
    assert {word for line in listed for word in line if word[0].isupper()} <= {flag.variable for flag in FLAGS}


@pytest.mark.parametrize(("name", "flag"), [pair for pair in spellings() if pair[1].why and not pair[1].refused])
def test_a_flag_without_effect_is_one_line_and_takes_its_words(
    capsys: pytest.CaptureFixture[str], name: str, flag: Flag
) -> None:
    words = [] if flag.switch else [(*flag.optional, "--port")[0]] * flag.words
    assert serve(name, *words, "--n", "3", name, *words) == Settings(n=3)
    lines = capsys.readouterr().err.splitlines()
    assert lines == [f"srb: {name} has no effect: {flag.why}"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("--lora-base", "llama.cpp applies adapters to the model that it loads"),
        ("-R", "after a restart, if `cache` or `state` named it and --slot-save-path is set"),
    ],
)
def test_an_option_of_an_older_server_has_its_own_reason(
    capsys: pytest.CaptureFixture[str], name: str, reason: str
) -> None:
    serve(name, "a.gguf")
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"srb: {name} has no effect: ")
    assert reason in line


@pytest.mark.parametrize(
    ("words", "meaning", "other"),
    [
        (["-n", "2048"], "an answer has at most 2048 tokens", "is -c 2048, the number of branches --n 2048"),
        (["-r", "64"], 'the text "64" ends every answer', "is --repeat-last-n 64"),
    ],
)
def test_a_word_that_servers_use_for_different_things_is_one_line(
    capsys: pytest.CaptureFixture[str], words: list[str], meaning: str, other: str
) -> None:
    serve(*words)
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"srb: {' '.join(words)}: {meaning}")
    assert line.endswith(other)


@pytest.mark.parametrize("words", [["-n", "-1"], ["-r", "User:"], ["--n-predict", "64"], ["--n", "3"], ["-c", "64"]])
def test_a_word_with_one_meaning_is_no_line(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    serve(*words)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("name", "flag"), [pair for pair in spellings() if pair[1].refused])
def test_a_flag_that_cannot_be_passed_over_is_refused(
    capsys: pytest.CaptureFixture[str], name: str, flag: Flag
) -> None:
    assert f"{name} is not supported: {flag.why}" in refusal(capsys, "serve", name, *["x"] * (not flag.switch))


@pytest.mark.parametrize("kind", ["draft-dspark", "ngram-simple,draft-dspark"])
def test_drafts_of_other_heads_are_refused_with_what_is_there(capsys: pytest.CaptureFixture[str], kind: str) -> None:
    problem = refusal(capsys, "serve", "--spec-type", kind)
    assert f"--spec-type: {kind.rpartition(',')[2]} is not there" in problem
    assert "draft-simple, draft-eagle3 and draft-dflash, with --spec-draft-model" in problem


# Variables -----------------------------------------------------------------------------------------------------------


def test_llama_servers_variables_mean_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    variables = {
        "LLAMA_ARG_CTX_SIZE": "100", "LLAMA_ARG_N_PREDICT": "7", "LLAMA_ARG_FLASH_ATTN": "1", "LLAMA_API_KEY": "k",
        "LLAMA_ARG_REUSE_PORT": "on", "LLAMA_ARG_NO_CACHE_PROMPT": "1", "LLAMA_ARG_UI": "off", "LLAMA_ARG_TOP_K": "9",
        "LLAMA_ARG_ENDPOINT_METRICS": "0", "LLAMA_ARG_N_GPU_LAYERS": "all",
    }  # fmt: skip
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert serve() == Settings(
        n_ctx=100, default_max_tokens=7, flash_attn="on", api_key="k", reuse_port=True, cache_prompt=False,
        ui=False, top_k=9,
    )  # fmt: skip


def test_a_flag_wins_over_an_srb_variable_and_that_over_llama_servers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "srb.toml").write_text("port = 1\ntop_k = 1\nn_ctx = 1\n")
    monkeypatch.setenv("SRB_CONFIG", str(tmp_path / "srb.toml"))
    for name in ("PORT", "TOP_K", "CTX_SIZE"):
        monkeypatch.setenv(f"LLAMA_ARG_{name}", "2")
    for name in ("PORT", "TOP_K"):
        monkeypatch.setenv(f"SRB_{name}", "3")
    settings = serve("--port", "4")
    assert (settings.port, settings.top_k, settings.n_ctx) == (4, 3, 2)


def test_llama_servers_variables_are_read_beside_those_of_a_service_of_kubernetes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in {"KUBERNETES": "10.96.0.1", "SRB": "10.96.7.7"}.items():
        monkeypatch.setenv(f"{name}_SERVICE_HOST", value)
    monkeypatch.setenv("SRB_PORT", "tcp://10.96.7.7:80")
    monkeypatch.setenv("LLAMA_ARG_PORT", "2")
    assert serve().port == 2


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("LLAMA_ARG_PORT", "x", "port (from LLAMA_ARG_PORT): "),
        ("LLAMA_ARG_UI", "maybe", "LLAMA_ARG_UI: should be on or off, got 'maybe'"),
        ("LLAMA_ARG_DOCKER_REPO", "gemma3", "LLAMA_ARG_DOCKER_REPO is not supported"),
    ],
)
def test_a_variable_that_is_wrong_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, variable: str, value: str, message: str
) -> None:
    monkeypatch.setenv(variable, value)
    assert message in refusal(capsys, "serve")


def test_a_variable_without_effect_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLAMA_ARG_THREADS_HTTP", "4")
    assert serve() == Settings()
    assert (
        capsys.readouterr().err
        == "srb: LLAMA_ARG_THREADS_HTTP has no effect: web workers use greenlets instead of threads\n"
    )


# Fetching ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Stand in for the network; return what was fetched."""
    asked: list[Any] = []

    def fetch(*what: Any, target: str = "") -> Path:
        asked.append(what)
        return Path(target or "/cache/fetched.gguf")

    monkeypatch.setattr(cli.hub, "fetch_from_hub", fetch)
    monkeypatch.setattr(cli.hub, "fetch_from_url", fetch)
    monkeypatch.setattr(
        cli.hub, "fetch_projector", lambda repo, *_: Path("/cache/mmproj.gguf") if "sees" in repo else None
    )
    return asked


def test_a_repository_among_several_models_adds_no_projector_for_all(fetched: list[Any]) -> None:
    listed = '[{"name": "a", "model": "/cache/me-sees"}, {"name": "b", "model": "/m/b.gguf"}]'
    assert serve("--models", listed, "-hf", "me/sees").mmproj == ""


def test_a_repositorys_projector_is_fetched_unless_it_is_named_or_forbidden(fetched: list[Any]) -> None:
    assert serve("-hf", "us/sees").mmproj == "/cache/mmproj.gguf"
    assert serve("-hf", "us/blind").mmproj == ""
    assert serve("-hf", "us/sees", "--no-mmproj").mmproj == ""
    assert serve("-hf", "us/sees", "--mmproj", "/mine.gguf").mmproj == "/mine.gguf"
    assert serve("-hf", "us/sees", "-mmu", "https://a.example/p.gguf").mmproj == "/cache/fetched.gguf"
    assert fetched[-1] == ("https://a.example/p.gguf", False, "--mmproj-url")


def test_a_model_is_fetched_before_the_start_and_its_token_goes_no_further(fetched: list[Any]) -> None:
    with pytest.raises(Executed) as executed:
        cli.main(["serve", "-hf", "us/er:Q8_0", "--hf-file", "m.gguf", "-hft", "secret", "--offline"])
    assert executed.value.environ["SRB_MODEL"] == "/cache/fetched.gguf"
    assert fetched == [("us/er:Q8_0", "m.gguf", "secret", True)]
    assert not [name for name, value in executed.value.environ.items() if "secret" in value]


def test_a_model_comes_from_an_address(fetched: list[Any]) -> None:
    assert serve("-mu", "https://a.example/m.gguf").model == "/cache/fetched.gguf"
    assert fetched == [("https://a.example/m.gguf", False)]


def test_a_model_comes_from_an_address_into_the_file_that_is_named(
    monkeypatch: pytest.MonkeyPatch, fetched: list[Any]
) -> None:
    assert serve("-m", "mine.gguf", "-mu", "https://a.example/m.gguf").model == "mine.gguf"
    assert fetched == [("https://a.example/m.gguf", False)]
    monkeypatch.setenv("LLAMA_ARG_MODEL", "ours.gguf")
    assert serve("-mu", "https://a.example/m.gguf").model == "/cache/fetched.gguf", "options win over variables"
    monkeypatch.setenv("LLAMA_ARG_MODEL_URL", "https://a.example/m.gguf")
    assert serve().model == "ours.gguf"
    assert len(fetched) == 3
    assert serve("-m", "mine.gguf").model == "mine.gguf"
    assert len(fetched) == 3, "the address belongs to the variables' file"


def test_a_repository_in_a_variable_gives_way_to_a_model_that_is_named(
    monkeypatch: pytest.MonkeyPatch, fetched: list[Any]
) -> None:
    monkeypatch.setenv("LLAMA_ARG_HF_REPO", "us/er")
    assert serve("-m", "mine.gguf").model == "mine.gguf"
    assert fetched == []
    assert serve().model == "/cache/fetched.gguf"
    monkeypatch.setenv("SRB_MODEL", "ours.gguf")
    assert serve().model == "ours.gguf"
    assert len(fetched) == 1
    assert serve("-hf", "an/other").model == "/cache/fetched.gguf"


# What wins, and what is wrong ----------------------------------------------------------------------------------------


def test_a_flag_wins_over_the_environment_and_that_over_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "srb.toml").write_text("port = 1\nworkers = 2\nn = 3\n")
    monkeypatch.setenv("SRB_WORKERS", "4")
    monkeypatch.chdir(tmp_path)
    settings = serve("--config", "srb.toml", "--n", "5")
    assert (settings.port, settings.workers, settings.n) == (1, 4, 5)


def test_every_way_of_giving_a_value_wins_over_the_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "srb.toml").write_text('profile = "llama-server"\nn_ctx = 1\n')
    monkeypatch.setenv("SRB_CONFIG", str(tmp_path / "srb.toml"))
    monkeypatch.setenv("SRB_METRICS", "true")
    monkeypatch.setenv("LLAMA_ARG_REPEAT_PENALTY", "1.2")
    settings = serve("-to", "7")
    assert (settings.port, settings.n_ctx, settings.metrics, settings.repeat_penalty) == (8080, 1, True, 1.2)
    assert settings.client_timeout == 7
    assert serve("--profile", "cria").port == 3000


@pytest.mark.parametrize("command", re.findall(r"`srb serve ([^`]+)`", COMING_FROM.read_text()))
def test_a_command_of_coming_from_parses_and_its_profile_is_in_force(command: str) -> None:
    words = shlex.split(command)
    if "--hf-repo" in words:  # it would be fetched
        assert read_options(words).values["hf_repo"]
        return
    settings = serve(*words)
    assert settings.profile == (words[words.index("--profile") + 1] if "--profile" in words else "none")
    assert settings.n == Settings(profile=settings.profile).n


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["serve", "--port", "x"], "port (from --port): "),
        (["serve", "-c", "x"], "n_ctx (from -c): "),
        (
            ["serve", "--profile", "vllm"],
            "(from --profile): Input should be 'none', 'llama-srb-api', 'llama-server', 'rust' or 'cria', got 'vllm'",
        ),
        (["serve", "--ports", "1"], "unknown option --ports; did you mean --port?"),
        (["serve", "--n-ct", "1"], "unknown option --n-ct; did you mean --n-ctx?"),
        (["serve", "--nothing-of-the-kind"], "unknown option --nothing-of-the-kind; see srb serve --help"),
        (["serve", "--prot", "1"], "unknown option --prot; did you mean --port?"),
        (["serve", "model.gguf"], "unexpected argument 'model.gguf'; did you mean --model model.gguf?"),
        (["serve", "storyteller"], "unexpected argument 'storyteller'; options begin with a dash"),
        (["serve", "--config", "/nowhere.toml"], "cannot read /nowhere.toml"),
        (["serve", "--n"], "--n needs a value"),
        (["serve", "--control-vector-layer-range", "1"], "--control-vector-layer-range needs 2 values"),
        (["serve", "--mlock=yes"], "--mlock takes no value, got 'yes'"),
        (["serve", "--grammar-file", "/nowhere.gbnf"], "cannot read /nowhere.gbnf: No such file"),
        (["serve", "--ssl-key-file", "key.pem"], "HTTPS needs both ssl_key_file and ssl_cert_file"),
        (["serve", "--api-key-file", "/nowhere"], "cannot read /nowhere: No such file"),
        (["serve", "--api-key", ""], "--api-key is empty; give a key, or leave the option out"),
        (["serve", "--hf-file", "x.gguf"], "--hf-file needs --hf-repo"),
        (["serve", "-m", "x.gguf", "-hf", "a/b"], "-hf and -m exclude each other"),
        (["sevre"], "invalid choice: 'sevre'"),
    ],
)
def test_an_error_is_one_line(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    assert message in refusal(capsys, *arguments)


def test_no_command_prints_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main([])
    assert ended.value.code == 2
    said = capsys.readouterr().out
    assert said.startswith("usage: srb")
    assert "start the server" in said
    assert "measure the server's speed" in said


def test_a_switch_is_shown_without_a_value(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["serve", "--help"])
    [line] = [each for each in capsys.readouterr().out.splitlines() if "--no-mmproj-auto" in each]
    assert "TEXT" not in line


def test_version_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("srb 0.")


@pytest.mark.parametrize("template", ["x" * 17_000, "ä" * 17_000], ids=["ASCII", "UTF-8"])
def test_a_list_of_presets_too_long_for_a_variable_is_refused_with_what_would_fit(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, template: str
) -> None:
    presets = tmp_path / "presets.ini"

    def write(count: int) -> None:
        presets.write_text(
            "".join(f"[m{place}]\nmodel = fake:\nchat-template = {template}\n" for place in range(count))
        )

    write(64)
    problem = refusal(capsys, "serve", "--models-preset", str(presets))
    assert "models: has" in problem
    assert "chat-template-file" in problem
    write(3)
    assert len(serve("--models-preset", str(presets)).models) > 3 * 17_000
