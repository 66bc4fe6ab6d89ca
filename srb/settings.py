"""Every setting, with its default, range and meaning: config file < SRB_* environment < command-line flags.

`Settings` is the only place where a default lives; config/default.toml documents the same ones and a test keeps the two
equal. An unknown key or a bad value is a ConfigError that names it and where it came from.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from srb.errors import ConfigError
from srb.protocol import SamplingParams

BUNDLED_MODEL = Path(__file__).parent / "models" / "storyteller.gguf"
ENV_PREFIX = "SRB_"
_SECRET = {"api_key"}  # never shown
CONFIG_VARIABLE = "SRB_CONFIG"  # names the config file; not a setting itself

_SAMPLING = SamplingParams()

CacheType = Literal["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1"]


def _proportions(text: str) -> str:
    try:
        shares = [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise ValueError("should be numbers separated by commas, such as 3,2") from None
    if any(share < 0 for share in shares):
        raise ValueError("shares cannot be negative")
    return text


def _biases(text: str) -> str:
    """Check `token id, + or -, bias`, several separated by commas; a bias of -inf is one too."""
    for part in filter(None, text.split(",")):
        if not re.fullmatch(r"\s*\d{1,9}([+-]\d{1,6}(\.\d+)?|-inf)\s*", part):
            raise ValueError("should be token ids with a bias, such as 15043+1,29-inf")
    return text


def _json(text: str) -> str:
    try:
        json.loads(text or "{}")
    except ValueError as error:
        raise ValueError(f"should be JSON: {error}") from None
    return text


def _strings(text: str) -> str:
    """Check what `strings_of` reads."""
    strings_of(text)
    return text


def strings_of(text: str) -> list[str]:
    """Return the strings of a setting that has one, or several as a JSON list; none for an empty one."""
    if not text.startswith("["):
        return [text] if text else []
    try:
        strings = json.loads(text)
    except ValueError:
        strings = None
    if not isinstance(strings, list) or not all(isinstance(string, str) for string in strings):
        raise ValueError('should be a string, or a JSON list of strings such as ["User:", "\\n"]')
    return strings


Strings = Annotated[str, AfterValidator(_strings)]


def _template(text: str) -> str:
    """Refuse what is no template; of llama.cpp's built-in ones only chatml has a name here."""
    if text and text != "chatml" and "{" not in text:
        raise ValueError("should be Jinja text or chatml (the model's own template is used without it)")
    return text


def _object(text: str) -> str:
    try:
        value = json.loads(text or "{}")
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise ValueError("should be a JSON object")
    return text


def _adapters(text: str) -> str:
    for part in filter(None, map(str.strip, text.split(","))):
        _, separator, scale = part.rpartition("=")
        try:
            finite = not separator or abs(float(scale)) < 1e6
        except ValueError:
            finite = False
        if not finite:
            raise ValueError("should be paths separated by commas, each with =scale or without")
    return text


class Settings(BaseModel):
    """The frozen settings of one server; build them with `Settings.load()`."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    # Web server
    host: str = Field(
        "127.0.0.1",
        description="address to listen on; 0.0.0.0 for every interface; several with commas; a path ending in .sock",
    )
    port: int = Field(9090, ge=0, le=65535, description="TCP port; 0 lets the system choose")
    reuse_port: bool = Field(False, description="let several servers listen on the same port")
    workers: int = Field(1, ge=1, le=64, description="web worker processes")
    worker_connections: int = Field(2000, ge=1, description="connections one worker serves at once")
    graceful_timeout: int = Field(30, ge=1, description="seconds that running streams get when the server stops")
    keepalive: int = Field(5, ge=1, description="seconds an idle connection is kept, and a request's headers may take")
    read_timeout: int = Field(15, ge=1, description="seconds in which a request's body must have arrived; else 408")
    write_timeout: int = Field(30, ge=1, description="seconds without progress before a slow reader is cancelled")
    sse_ping_interval: int = Field(15, ge=-1, description="seconds of silence before a keep-alive comment; -1: none")
    max_body_bytes: int = Field(4 * 1024 * 1024, ge=1024, description="largest request body, in bytes")
    api_prefix: str = Field(
        "", pattern=r"^(/[\w.~-]+)*$", description="path before all routes, such as /llm; without a slash at its end"
    )
    static_path: str = Field("", description="folder of files that are served at /; empty: none")
    ui: bool = Field(True, description="serve a page at /")
    metrics: bool = Field(True, description="serve GET /metrics (Prometheus text)")
    slots: bool = Field(True, description="serve GET /slots, which shows what is being generated")
    props: bool = Field(False, description="allow POST /props")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="least severe lines to log")
    log_format: Literal["text", "json"] = Field("text", description="form of the lines, one for each request")
    log_file: str = Field("", description="file to log to, opened anew when it was moved away; empty: standard error")
    log_prompts: bool = Field(False, description="log the prompts of requests too")

    # Access
    api_key: str = Field("", repr=False, description="keys of which a client has to send one; several with commas")
    api_key_file: str = Field("", description="file with such keys, one a line; lines that begin with # are skipped")
    allowed_hosts: str = Field(
        "",
        description="names under which the server may be asked, with commas; needed behind a proxy that passes Host on; "
        "a server on a loopback address without keys answers to no other name than localhost",
    )
    cors_origins: str = Field(
        "*",
        description="origins of pages that may use the server, with commas; *: any; localhost: those of this machine",
    )
    cors_methods: str = Field("GET, POST, DELETE, OPTIONS", description="methods that such pages may use")
    cors_headers: str = Field("*", description="headers that such pages may send; *: those that they ask for")
    cors_credentials: bool = Field(True, description="whether such pages may send credentials")
    ssl_key_file: str = Field("", description="private key in a PEM file, for HTTPS")
    ssl_cert_file: str = Field("", description="certificate in a PEM file, for HTTPS")

    # What a client may ask for
    max_request_tokens: int = Field(
        0, ge=0, description="tokens that all branches of a request may have together (n × max_tokens); 0: any number"
    )
    max_client_requests: int = Field(
        0,
        ge=0,
        description="generating requests that a key, or without keys an address, may have open; 0: any number",
    )
    rate_limit: int = Field(
        0,
        ge=0,
        description="POST requests a minute that a key, or without keys an address, may send; 0: any number",
    )
    max_unread_bytes: int = Field(
        4 * 1024 * 1024,
        ge=65536,
        description="text of a request that its client has not read, in bytes; with more the request is cancelled",
    )

    # What a request gets when it does not say
    n: int = Field(8, ge=1, le=255, description="branches of a request in the srb dialect that names no n")
    max_n: int = Field(64, ge=1, le=255, description="most branches that one request may ask for")
    n_predict: int = Field(-1, ge=-1, description="tokens a branch in all other dialects may have; -1: no limit")
    default_max_tokens: int = Field(128, ge=-1, description="tokens a branch in the srb dialect may have; -1: no limit")
    stop: Strings = Field("", description="string that ends a branch; several as a JSON list")
    cache_prompt: bool = Field(True, description="use and keep what has been computed")
    completions_format: Literal["auto", "srb", "openai", "openai-stream"] = Field(
        "auto", description="dialect of POST /v1/completions: auto decides by the body, see docs/api.md"
    )
    system_prompt_file: str = Field(
        "",
        description="file with a text that stands before every prompt of POST /completion, or that as JSON with names",
    )
    spm_infill: bool = Field(False, description="in POST /infill the suffix stands before the prefix")
    embd_normalize: int = Field(
        2, ge=-1, description="norm of embeddings; -1: as they are, 0: the largest is 32760, 1: taxicab, 2: euclidean"
    )
    user_name: str = Field("User:", description="name of the person in GET /props, for programs that write dialogues")
    assistant_name: str = Field("Assistant:", description="name of the model there")

    # Chat
    chat_template: Annotated[str, AfterValidator(_template)] = Field(
        "", description="Jinja text of the chat template, or chatml; empty: the model's own, else ChatML"
    )
    chat_template_file: str = Field("", description="file with the chat template; wins over chat_template")
    chat_template_kwargs: Annotated[str, AfterValidator(_object)] = Field(
        "", description='variables for the chat template, as a JSON object such as {"enable_thinking": false}'
    )
    reasoning_format: Literal["auto", "deepseek", "deepseek-legacy", "none"] = Field(
        "auto",
        description="where <think> blocks go: auto and deepseek: to reasoning_content; none: they stay in the content; "
        "deepseek-legacy: both",
    )
    reasoning: Literal["auto", "on", "off"] = Field(
        "auto", description="whether a chat's model thinks first, where its template leaves that open; auto: it does"
    )
    reasoning_effort: Literal["default", "minimal", "low", "medium", "high", "xhigh", "max"] = Field(
        "default", description="how much, for templates that know it; 'default' leaves it to the template"
    )
    prefill_assistant: bool = Field(True, description="continue a last message that is the assistant's")

    # Sampling, for requests that do not say
    seed: int = Field(-1, ge=-1, lt=2**32, description="seed of the first branch; -1: a drawn one")
    samplers: str = Field(
        ";".join(_SAMPLING.samplers),
        description="samplers in their order, separated by semicolons",
        pattern=r"^[\w;-]*$",
    )
    temperature: float = Field(_SAMPLING.temperature, ge=0, description="0: always the likeliest token")
    dynatemp_range: float = Field(
        _SAMPLING.dynatemp_range, ge=0, description="the temperature varies by so much; 0: off"
    )
    dynatemp_exponent: float = Field(_SAMPLING.dynatemp_exponent, description="how it depends on the entropy")
    top_k: int = Field(_SAMPLING.top_k, ge=0, description="keep the k likeliest tokens; 0: all")
    top_p: float = Field(_SAMPLING.top_p, ge=0, le=1, description="keep the likeliest tokens that make up p; 1: all")
    min_p: float = Field(_SAMPLING.min_p, ge=0, le=1, description="drop tokens below p times the likeliest; 0: off")
    typical_p: float = Field(_SAMPLING.typical_p, ge=0, le=1, description="locally typical sampling; 1: off")
    top_n_sigma: float = Field(_SAMPLING.top_n_sigma, description="keep logits within n deviations; below 0: off")
    xtc_probability: float = Field(_SAMPLING.xtc_probability, ge=0, le=1, description="how often XTC acts; 0: off")
    xtc_threshold: float = Field(
        _SAMPLING.xtc_threshold, ge=0, le=1, description="XTC drops what is likelier; above 0.5: off"
    )
    repeat_last_n: int = Field(_SAMPLING.repeat_last_n, ge=0, description="tokens that penalties look at; 0: none")
    repeat_penalty: float = Field(_SAMPLING.repeat_penalty, gt=0, description="penalty for repeated tokens; 1: off")
    frequency_penalty: float = Field(_SAMPLING.frequency_penalty, description="penalty for each repetition; 0: off")
    presence_penalty: float = Field(_SAMPLING.presence_penalty, description="penalty for any repetition; 0: off")
    dry_multiplier: float = Field(
        _SAMPLING.dry_multiplier, description="strength of DRY against repeated phrases; 0: off"
    )
    dry_base: float = Field(_SAMPLING.dry_base, ge=1, description="growth of DRY's penalty with the phrase's length")
    dry_allowed_length: int = Field(
        _SAMPLING.dry_allowed_length, ge=0, description="longest phrase without it, in tokens"
    )
    dry_penalty_last_n: int = Field(_SAMPLING.dry_penalty_last_n, ge=0, description="tokens that DRY looks at; 0: none")
    dry_sequence_breakers: Strings = Field(
        json.dumps(_SAMPLING.dry_sequence_breakers), description="strings that end a phrase for DRY, as a JSON list"
    )
    mirostat: int = Field(_SAMPLING.mirostat, ge=0, le=2, description="version of Mirostat; 0: off")
    mirostat_tau: float = Field(_SAMPLING.mirostat_tau, description="entropy that Mirostat aims at")
    mirostat_eta: float = Field(_SAMPLING.mirostat_eta, description="its learning rate")
    adaptive_target: float = Field(
        _SAMPLING.adaptive_target, le=1, description="choose tokens near this probability; below 0: off"
    )
    adaptive_decay: float = Field(_SAMPLING.adaptive_decay, ge=0, le=0.99, description="how slowly that target adapts")
    logit_bias: Annotated[str, AfterValidator(_biases)] = Field(
        "", description="biases of tokens, such as 15043+1,29-inf (-inf forbids a token)"
    )
    ignore_eos: bool = Field(False, description="go on where the model would end its text")
    grammar: str = Field("", max_length=64 * 1024, description="grammar (GBNF) that texts must follow")
    json_schema: Annotated[str, AfterValidator(_json)] = Field(
        "", max_length=64 * 1024, description="JSON schema that texts must follow"
    )

    # Model and context
    model: str = Field("", description="path of the GGUF file; empty: the bundled storyteller")
    alias: str = Field("", description="name of the model in answers; empty: the file's name; more names with commas")
    tags: str = Field("", description="words that GET /v1/models tells of the model, with commas")
    n_ctx: int = Field(
        8192, ge=0, le=2**24, description="KV cells shared by all branches; 0: the model's training context"
    )
    n_batch: int = Field(2048, ge=1, description="most tokens computed in one step; of prompts, n_ubatch")
    n_ubatch: int = Field(
        512, ge=1, description="tokens computed at once: of prompts a step has so many, and a cancel waits for no more"
    )
    n_seq_max: int = Field(
        0,
        ge=0,
        le=256,
        description="sequences that exist at once; 0: 256 on a GPU, 96 on a CPU, 32 where each costs memory (recurrent "
        "models)",
    )
    n_gpu_layers: int = Field(-1, ge=-1, description="layers on the GPU; -1: all (no effect without a GPU build)")
    threads: int = Field(0, ge=0, description="threads for one-token steps; 0: one per usable core")
    threads_batch: int = Field(0, ge=0, description="threads for all other steps; 0: as threads")
    flash_attn: Literal["auto", "on", "off"] = Field("auto", description="flash attention")
    cache_type_k: CacheType = Field("f16", description="number format of the keys in the KV store")
    cache_type_v: CacheType = Field(
        "f16", description="number format of the values; a quantized one needs flash attention"
    )
    mmap: bool = Field(True, description="map the model file instead of reading it")
    mlock: bool = Field(False, description="lock the model in memory")
    main_gpu: int = Field(0, ge=0, description="the GPU used where only one can be")
    split_mode: Literal["none", "layer", "row", "tensor"] = Field(
        "layer", description="how several GPUs share the model"
    )
    tensor_split: Annotated[str, AfterValidator(_proportions)] = Field(
        "", description="share of the model for each GPU, such as 3,2; empty: by free memory"
    )

    kv_offload: bool = Field(True, description="keep the KV store on the GPU, with the layers that are there")
    op_offload: bool = Field(True, description="compute long prompts on the GPU also for layers that are not there")
    check_tensors: bool = Field(False, description="look for invalid numbers in the model file while loading it")
    rope_scaling: Literal["auto", "none", "linear", "yarn"] = Field(
        "auto", description="how positions beyond the trained context are scaled (RoPE); auto: as the model says"
    )
    rope_freq_base: float = Field(0, ge=0, description="base frequency of RoPE; 0: the model's")
    rope_freq_scale: float = Field(
        0, ge=0, description="factor of RoPE's frequencies, such as 0.5 for twice the context; 0: the model's"
    )
    yarn_orig_ctx: int = Field(0, ge=0, description="trained context for YaRN; 0: the model's")
    yarn_ext_factor: float = Field(-1, description="extrapolation mix of YaRN; below 0: the model's")
    yarn_attn_factor: float = Field(-1, description="attention magnitude of YaRN; below 0: the model's")
    yarn_beta_slow: float = Field(-1, description="high correction dimension of YaRN; below 0: the model's")
    yarn_beta_fast: float = Field(-1, description="low correction dimension of YaRN; below 0: the model's")
    context_shift: bool = Field(
        False, description="at the context's end discard the oldest half of a request's only branch and go on"
    )
    n_keep: int = Field(0, ge=-1, description="tokens at a text's beginning that it never discards; -1: the prompt")

    embedding: bool = Field(False, description="make embeddings: /embedding and /v1/embeddings")
    pooling: Literal["auto", "none", "mean", "cls", "last", "rank"] = Field(
        "auto", description="how the vectors of a text's tokens become one; auto: as the model says; rank: as reranking"
    )
    reranking: bool = Field(False, description="rank documents: /rerank, with a model that is made for it")
    lora: Annotated[str, AfterValidator(_adapters)] = Field(
        "", description="LoRA adapters, separated by commas: the path of a GGUF, or path=scale; empty: none"
    )

    # Prefix tree
    cache_cells: int = Field(
        -1,
        ge=-1,
        description="idle KV cells kept ready at once, which slow every step; the rest is parked. -1: 4096 on a GPU, "
        "none on a CPU, where parking and restoring cost next to nothing",
    )
    cache_ram_mib: int = Field(
        2048, ge=0, description="host memory for parked KV, in MiB; 0: what does not stay in the cells is forgotten"
    )

    state_dir: str = Field(
        "", description="folder of named states, which outlive the server; empty: they are kept in memory only"
    )

    # Engine
    max_queue: int = Field(256, ge=1, description="requests that may wait; more are answered 429")
    queue_timeout: int = Field(
        300, ge=0, description="seconds that a request may wait for room; then it is answered 503; 0: any time"
    )
    request_timeout: int = Field(
        0,
        ge=0,
        description="seconds from a request's arrival after which its branches end with what they have; 0: no limit",
    )
    stall_timeout: int = Field(
        30,
        ge=0,
        description="seconds that a step may take, and as many again for every 64 tokens of it, before the engine counts "
        "as hung and is started again; 0: no limit",
    )
    engine_managed: bool = Field(
        True, description="start the engine with the web server; false: it runs by itself (systemd)"
    )
    runtime_dir: str = Field(
        "", description="folder of the engine's socket and lock, mode 0700; empty: one for this user and port"
    )

    @model_validator(mode="after")
    def _consistent(self) -> Settings:
        if self.n > self.max_n:
            raise ValueError(f"n ({self.n}) is more than max_n ({self.max_n})")
        if bool(self.ssl_key_file) != bool(self.ssl_cert_file):
            raise ValueError("HTTPS needs both ssl_key_file and ssl_cert_file")
        if self.grammar and self.json_schema:
            raise ValueError("grammar and json_schema exclude each other")
        return self

    @classmethod
    def load(cls, flags: Mapping[str, Any] | None = None, environ: Mapping[str, str] = os.environ) -> Settings:
        """Merge the file that SRB_CONFIG names, SRB_* variables and `flags`, later ones winning.

        Raise ConfigError, naming the key and its source, for a key that does not exist or a value out of range.
        """
        values: dict[str, Any] = {}
        sources: dict[str, str] = {}
        for source, found in (
            *_from_file(environ.get(CONFIG_VARIABLE, "")),
            *_from_environment(environ),
            *((f"--{key.replace('_', '-')}", {key: value}) for key, value in (flags or {}).items()),
        ):
            values |= found
            sources |= dict.fromkeys(found, source)
        try:
            return cls(**values)
        except ValidationError as error:
            raise ConfigError(_explain(error, sources)) from None

    def to_environ(self) -> dict[str, str]:
        """Return the SRB_* variables that make another process load these settings."""
        text = {True: "true", False: "false"}
        return {
            ENV_PREFIX + name.upper(): text.get(value, str(value)) if isinstance(value, bool) else str(value)
            for name, value in self.model_dump().items()
            if value != type(self).model_fields[name].default
        }

    def load_api_keys(self) -> tuple[str, ...]:
        """Return the keys of `api_key` and `api_key_file`; none means that no client needs one.

        Raise ConfigError for a file that cannot be read, and where keys were meant but none is there.
        """
        found: list[str] = []
        if self.api_key_file:
            try:
                lines = Path(self.api_key_file).expanduser().read_text("utf-8").splitlines()
                found = [key for line in lines if not line.startswith("#") and (key := line.strip())]
            except (OSError, UnicodeDecodeError) as error:
                reason = getattr(error, "strerror", None) or "it is not text"
                raise ConfigError(f"api_key_file: cannot read {self.api_key_file}: {reason}") from None
        keys = tuple(_listed(self.api_key) + found)
        if not keys and (self.api_key or self.api_key_file):
            raise ConfigError("api_key or api_key_file is set, but there is no key in it")
        return keys

    @property
    def hosts(self) -> list[str]:
        """The addresses and socket paths to listen on."""
        return _listed(self.host)

    @property
    def model_path(self) -> Path:
        return Path(self.model).expanduser() if self.model else BUNDLED_MODEL

    @property
    def model_alias(self) -> str:
        return self.model_aliases[0]

    @property
    def model_aliases(self) -> list[str]:
        """The model's names, at least one; answers have the first."""
        return _listed(self.alias) or [self.model_path.stem]

    @property
    def model_tags(self) -> list[str]:
        return _listed(self.tags)

    @property
    def adapters(self) -> list[tuple[Path, float]]:
        """The LoRA adapters' files and scales."""
        found = []
        for part in filter(None, map(str.strip, self.lora.split(","))):
            path, separator, scale = part.rpartition("=")
            found.append((Path(path).expanduser(), float(scale)) if separator else (Path(part).expanduser(), 1.0))
        return found

    @property
    def runtime_path(self) -> Path:
        """The folder of the engine's socket, lock and status: short, since a socket's path is at most 107 bytes."""
        if self.runtime_dir:
            return Path(self.runtime_dir)
        base = os.environ.get("XDG_RUNTIME_DIR")
        return Path(base, f"srb-{self.port}") if base else Path("/tmp", f"srb-{os.getuid()}-{self.port}")

    @property
    def socket_path(self) -> Path:
        return self.runtime_path / "engine.sock"


def _listed(text: str) -> list[str]:
    return [item for part in text.split(",") if (item := part.strip())]


def _from_file(path: str) -> list[tuple[str, dict[str, Any]]]:
    if not path:
        return []
    try:
        return [(path, tomllib.loads(Path(path).read_text("utf-8")))]
    except OSError as error:
        raise ConfigError(f"{CONFIG_VARIABLE}: cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from None


def _from_environment(environ: Mapping[str, str]) -> list[tuple[str, dict[str, Any]]]:
    return [
        (name, {name.removeprefix(ENV_PREFIX).lower(): value})
        for name, value in environ.items()
        if name.startswith(ENV_PREFIX) and name != CONFIG_VARIABLE
    ]


def _explain(error: ValidationError, sources: Mapping[str, str]) -> str:
    lines = []
    for problem in error.errors():
        key = ".".join(str(part) for part in problem["loc"])
        where = f" (from {sources[key]})" if key in sources else ""
        if problem["type"] == "extra_forbidden":
            lines.append(f"unknown setting {key!r}{where}")
        else:
            message = problem["msg"].removeprefix("Value error, ")
            given = f", got {problem['input']!r}" if key and key not in _SECRET else ""
            lines.append(f"{key or 'settings'}{where}: {message}{given}")
    return "; ".join(lines)
