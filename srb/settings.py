"""Every setting, with its default, range and meaning: profile < config file < SRB_* environment < command-line flags.

Only `Settings` defines defaults; config/default.toml is generated from it, and a test keeps the two equal. An unknown key or
a bad value raises a ConfigError that names the key and its source.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    create_model,
    model_validator,
)

from srb.errors import ConfigError
from srb.held import read_text
from srb.named_models import NAMED_MODELS, model_file
from srb.profiles import PROFILES, ProfileName
from srb.rpc_nodes import Node, nodes_of
from srb.sampling_params import MAX_GRAMMAR, PARAMETERS, Parameter

ENV_PREFIX = "SRB_"
TEXT_FILES = ("api_key_file", "chat_template_file", "system_prompt_file")  # settings that name files which workers read
_SECRET = {"api_key"}  # values that no error message quotes
SOCKET_NAME = "engine.sock"  # the engine's socket, in the runtime folder
STATES_SOCKET = "states.sock"  # a replica's socket, by which its engine shares named states with others
CONFIG_VARIABLE = "SRB_CONFIG"  # names the config file; not a setting itself
REPLICA_VARIABLE = "SRB_REPLICA"  # set by a replica of a cluster for its engine: the name in its logs; not a setting
SERVER_ID_VARIABLE = "SRB_SERVER_ID"  # set by the server for its workers and its engine; not a setting either

# The headings of --help and config/default.toml, by the first setting under each.
HEADINGS = {
    "profile": "Profile",
    "host": "Web server",
    "api_key": "Access",
    "max_request_tokens": "Limits per client",
    "n": "Defaults of requests",
    "chat_template": "Chat",
    "seed": "Sampling defaults of requests",
    "model": "Model and context",
    "cache_cells": "Prefix tree",
    "max_queue": "Engine",
    "cluster": "Cluster",
}

CacheType = Literal["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1"]


def _on_or_off(value: object) -> object:
    """Return "on" or "off" for a boolean, in TOML or as a word; anything else as it is."""
    words = {"true": "on", "1": "on", "false": "off", "0": "off"}
    return words.get(str(value).lower(), value)


SwitchOrAuto = Annotated[Literal["auto", "on", "off"], BeforeValidator(_on_or_off)]


def _hosts(text: str) -> str:
    return ",".join(map(expanded, split_commas(text)))


def _proportions(text: str) -> str:
    try:
        shares = [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise ValueError("should be numbers separated by commas, such as 3,2") from None
    if any(share < 0 for share in shares):
        raise ValueError("shares cannot be negative")
    return text


def _biases(text: str) -> str:
    """Check pairs of a token id and a signed bias, separated by commas; the bias may be -inf."""
    for part in filter(None, text.split(",")):
        if not re.fullmatch(r"\s*\d{1,9}([+-]\d{1,6}(\.\d+)?|-inf)\s*", part):
            raise ValueError("should be token ids with a bias, such as 15043+1,29-inf")
    return text


def _json(text: str) -> str:
    try:
        schema = json.loads(text or "{}")
    except ValueError as error:
        raise ValueError(f"should be JSON: {error}") from None
    if schema is not True and not isinstance(schema, dict):
        raise ValueError("should be a JSON schema, an object or true")
    return text


def _check_strings(text: str) -> str:
    """Raise ValueError for a text that `strings_of` cannot read."""
    strings_of(text)
    return text


def strings_of(text: str) -> list[str]:
    """Return the strings of a setting: one, several written as a JSON list, or none if it is empty."""
    if not text.startswith("["):
        return [text] if text else []
    try:
        strings = json.loads(text)
    except ValueError:
        strings = None
    if not isinstance(strings, list) or not all(isinstance(string, str) for string in strings):
        raise ValueError('should be a string, or a JSON list of strings such as ["User:", "\\n"]')
    return strings


Strings = Annotated[str, AfterValidator(_check_strings)]


def expanded(path: str) -> str:
    """Return a path with the home folder that a ~ at its beginning stands for. Raise ValueError if there is none."""
    found = os.path.expanduser(path)
    if found.startswith("~"):
        raise ValueError(f"there is no home folder {found.partition('/')[0]}")
    return found


FilePath = Annotated[str, AfterValidator(expanded)]

OF_ONE_MODEL = ("mmproj", "spec_draft_model", "lora")  # files that fit one model, and not all of a list

# Types of the sampling settings that are written as text.
_TEXTS: dict[str, Any] = {
    "samplers": Annotated[str, Field(pattern=r"^[\w;-]*$")],
    "dry_sequence_breakers": Strings,
    "logit_bias": Annotated[str, AfterValidator(_biases)],
    "grammar": Annotated[str, Field(max_length=MAX_GRAMMAR)],
    "json_schema": Annotated[str, Field(max_length=MAX_GRAMMAR), AfterValidator(_json)],
}


def _object(text: str) -> str:
    try:
        value = json.loads(text or "{}")
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise ValueError("should be a JSON object")
    return text


def _not_zero(number: int) -> int:
    if number == 0:
        raise ValueError("should be 1 or more, or -1 for no limit")
    return number


def _nodes(text: str) -> str:
    """Raise ValueError for a text that `nodes_of` cannot read."""
    nodes_of(text)
    return text


def _adapters(text: str) -> str:
    for part in split_commas(text):
        path, separator, scale = part.rpartition("=")
        expanded(path or part)
        try:
            finite = not separator or abs(float(scale)) < 1e6
        except ValueError:
            finite = False
        if not finite:
            raise ValueError("should be paths separated by commas, each optionally followed by =scale")
    return text


def _listed(value: object) -> object:
    """Return a list of models, as TOML has it, as text: separated by commas, or JSON if it has tables; all else as it is."""
    if not isinstance(value, list) or not all(isinstance(each, str | dict) for each in value):
        return value
    if all(isinstance(each, str) and "," not in each for each in value):
        return ",".join(value)
    return json.dumps(value, ensure_ascii=False, default=str)


class _RequestSettings(BaseModel):
    """The first half of the settings: the web server, limits, and defaults of requests."""

    # Built at the first use: of the three classes that hold settings only the last one is.
    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=(), defer_build=True)

    # Profile
    profile: ProfileName = Field(
        "none",
        description="port, dialect and defaults of another server; a setting that is given has precedence over the "
        "profile's. docs/coming-from.md lists the profiles",
    )

    # Web server
    host: Annotated[str, AfterValidator(_hosts)] = Field(
        "127.0.0.1",
        description="address to listen on, or the path of a Unix socket (ends in .sock); several separated by commas; "
        "0.0.0.0: every interface",
    )
    port: int = Field(9090, ge=0, le=65535, description="TCP port; 0 lets the system choose")
    reuse_port: bool = Field(False, description="allow several servers to listen on the same port (SO_REUSEPORT)")
    workers: int = Field(1, ge=1, le=64, description="web worker processes")
    worker_connections: int = Field(
        2000,
        ge=1,
        description="connections that one worker serves at once, at most 200 fewer than its limit of descriptors; beyond "
        "them the one that has been idle for longest gives way",
    )
    max_linger: int = Field(
        600, ge=0, description="most seconds that a request may linger after its last branch or reader; 0: none may"
    )
    graceful_timeout: int = Field(
        30, ge=1, description="seconds that open streams may continue after the server is told to stop"
    )
    keepalive: int = Field(
        5, ge=1, description="seconds that an idle connection is kept open; also the time limit for a request's headers"
    )
    read_timeout: int = Field(15, ge=1, description="time limit for receiving a request's body, in seconds; then 408")
    write_timeout: int = Field(
        30, ge=1, description="seconds without progress of a write before a slow client's request is cancelled"
    )
    sse_ping_interval: int = Field(
        15, ge=-1, description="seconds without an event before a stream sends a keep-alive comment; -1: never"
    )
    max_body_bytes: int = Field(
        32 * 1024 * 1024,
        ge=1024,
        description="largest request body, in bytes, 1024 or more; a picture of 20 MiB has 27 MiB as base64, also in the "
        "history of a model that sees none",
    )
    api_prefix: str = Field(
        "", pattern=r"^(/[\w.~-]+)*$", description="path before all routes, such as /llm; no slash at the end"
    )
    static_path: FilePath = Field("", description="folder of files that are served at /; empty: none")
    ui: bool = Field(True, description="serve the page for writing at /, and /completion.js")
    stories: FilePath = Field(
        "auto",
        description="SQLite file in which the page keeps stories; auto: srb/stories.sqlite3 in XDG_DATA_HOME, or else in "
        "~/.local/share; empty: the server keeps none",
    )
    metrics: bool = Field(True, description="serve GET /metrics (Prometheus text)")
    slots: bool = Field(True, description="serve GET /slots, which lists the branches that are being generated")
    props: bool = Field(False, description="accept POST /props, which changes nothing")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="lowest level that is logged")
    log_format: Literal["text", "json"] = Field("text", description="format of log lines; each request has one line")
    log_file: FilePath = Field(
        "", description="log file, reopened after it was moved or removed; empty: standard error"
    )
    log_prompts: bool = Field(False, description="also log the prompts of requests")

    # Access
    api_key: str = Field(
        "",
        repr=False,
        description="API keys, separated by commas; each request must carry one; empty: no key is needed",
    )
    api_key_file: FilePath = Field(
        "", description="file of API keys, one per line; lines that begin with # are skipped"
    )
    allowed_hosts: str = Field(
        "",
        description="host names that requests may be addressed to, separated by commas; needed behind a proxy that "
        "forwards the Host header. A server without keys on a loopback address answers only to localhost",
    )
    cors_origins: str = Field(
        "*",
        description="origins of web pages that may use the server, separated by commas; *: any; localhost: pages of this "
        "machine",
    )
    cors_methods: str = Field(
        "GET, POST, PATCH, DELETE, OPTIONS", description="HTTP methods that pages of other origins may use"
    )
    cors_headers: str = Field(
        "*", description="request headers that pages of other origins may send; *: all that a page asks for"
    )
    cors_credentials: bool = Field(True, description="allow pages of other origins to send credentials")
    ssl_key_file: FilePath = Field("", description="private key in a PEM file, for HTTPS")
    ssl_cert_file: FilePath = Field("", description="certificate in a PEM file, for HTTPS")

    # Limits per client
    max_request_tokens: int = Field(
        0, ge=0, description="limit of the tokens of all branches of a request together (n × max_tokens); 0: no limit"
    )
    max_client_requests: int = Field(
        0,
        ge=0,
        description="completions, embeddings, rerankings and readers of running requests that one client may have open "
        "at once; a client is an API key, or an address if there are no keys; 0: no limit",
    )
    max_client_lingering: int = Field(
        8,
        ge=0,
        description="requests of one client that may run on at once though nobody reads them (`linger`); of more, the one "
        "that nobody has read for longest ends with what it has, and rests; 0: no limit",
    )
    rate_limit: int = Field(
        0,
        ge=0,
        description="POST and PATCH requests per minute that one client (an API key, or an address) may send, apart from "
        "stories that it saves; 0: no limit",
    )
    max_bodies_mib: int = Field(
        256,
        ge=1,
        description="memory of the bodies that one worker receives at the same time, in MiB; beyond it one of more than "
        "64 KiB is answered 503",
    )
    max_unread_bytes: int = Field(
        4 * 1024 * 1024,
        ge=65536,
        description="unread output that a stream may hold in memory, in bytes; at least 16 tokens of each branch are "
        "allowed. A stream that holds more when the next tokens arrive is cancelled",
    )
    max_answer_bytes: int = Field(
        256 * 1024 * 1024,
        ge=1024 * 1024,
        description="memory for one answer that is not streamed, for all that a stream with best_of holds back, and for the "
        "log-probabilities of a call's prompts, in bytes; a log-probability takes 512",
    )

    # Defaults of requests
    n: int = Field(8, ge=1, le=255, description="branches of a request in the srb dialect that has no n")
    max_n: int = Field(
        64, ge=1, le=255, description="largest n that a request may ask for; of a cluster, for each replica"
    )
    n_predict: int = Field(-1, ge=-1, description="max_tokens in the dialects other than srb; -1: no limit")
    default_max_tokens: int = Field(128, ge=-1, description="max_tokens in the srb dialect; -1: no limit")
    stop: Strings = Field("", description="stop string that ends a branch; several as a JSON list")
    cache_prompt: bool = Field(True, description="reuse computed text, and keep new text for reuse")
    completions_format: Literal["auto", "srb", "openai", "openai-stream"] = Field(
        "auto", description="dialect of POST /v1/completions; auto: chosen by the body, see docs/api.md"
    )
    system_prompt_file: FilePath = Field(
        "",
        description="file of a text that precedes every prompt of POST /completion: plain text, or a JSON object with "
        "prompt, anti_prompt and assistant_name",
    )
    spm_infill: bool = Field(False, description="put the suffix before the prefix in prompts of POST /infill")
    embd_normalize: int = Field(
        2,
        ge=-1,
        description="normalization of embeddings; -1: none, 0: largest value 32760, 1: taxicab norm, 2: Euclidean norm, "
        "3 and more: p-norm",
    )
    user_name: str = Field("User:", description="the user's name in GET /props, for programs that write dialogues")
    assistant_name: str = Field("Assistant:", description="the model's name in GET /props")

    # Chat
    chat_template: str = Field(
        "",
        description="chat template: Jinja text, or a name that llama.cpp knows, such as llama3; empty: the model's own "
        "template, else ChatML",
    )
    chat_template_file: FilePath = Field("", description="file of the chat template; has precedence over chat_template")
    chat_template_kwargs: Annotated[str, AfterValidator(_object)] = Field(
        "", description='variables of the chat template, as a JSON object such as {"enable_thinking": false}'
    )
    reasoning_format: Literal["auto", "deepseek", "deepseek-legacy", "none"] = Field(
        "auto",
        description="field of <think> blocks in a reply; auto, deepseek: reasoning_content; none: content; "
        "deepseek-legacy: both",
    )
    reasoning: Literal["auto", "on", "off"] = Field(
        "auto", description="let the model think before it replies, for chat templates with such a switch; auto: on"
    )
    reasoning_effort: Literal["default", "minimal", "low", "medium", "high", "xhigh", "max"] = Field(
        "default",
        description="reasoning effort, for chat templates that support it; 'default' leaves it to the template",
    )
    reasoning_budget: Annotated[int, Field(ge=-1, le=2**31 - 1)] = Field(
        -1, description="most tokens of a reply's reasoning, whose end is then forced, in tokens; -1: any number"
    )
    reasoning_budget_message: str = Field(
        "", description="text before the end of reasoning that is forced by its budget"
    )
    reasoning_preserve: bool = Field(
        True, description="keep the reasoning of past replies in the prompt, for chat templates with such a switch"
    )
    skip_chat_parsing: bool = Field(
        False, description="leave reasoning and tool calls in the content of chats as the model writes them"
    )
    prefill_assistant: bool = Field(
        True, description="continue the last message of a chat if it is the assistant's, instead of replying to it"
    )

    # Sampling defaults of requests; the other settings of this section are made from PARAMETERS
    seed: int = Field(-1, ge=-1, lt=2**32, description="seed of the first branch; -1: random")


def _default_text(parameter: Parameter) -> Any:
    """Return a parameter's default in the form of its setting."""
    if parameter.is_plain or isinstance(parameter.default, str):
        return parameter.default
    if parameter.name == "samplers":
        return ";".join(parameter.default)
    return json.dumps(parameter.default) if parameter.default else ""


def _sampling_setting(parameter: Parameter) -> tuple[Any, Any]:
    """Return the type and the pydantic field of a parameter's setting."""
    description = ", ".join(filter(None, (parameter.description, parameter.as_text)))
    kind = parameter.type if parameter.is_plain else _TEXTS[parameter.name]
    default = _default_text(parameter)
    return kind, Field(default, description=description, ge=parameter.least, le=parameter.most, gt=parameter.above)


if TYPE_CHECKING:

    class _SamplingSettings(_RequestSettings):
        """The sampling settings that code reads by their names."""

        grammar: str = ""
        json_schema: str = ""
else:
    _SamplingSettings = create_model(
        "_SamplingSettings",
        __base__=_RequestSettings,
        **{name: _sampling_setting(each) for name, each in PARAMETERS.items() if each.is_setting},
    )


class Settings(_SamplingSettings):
    """The frozen settings of one server, built with `Settings.load()`."""

    # Model and context
    model: FilePath = Field(
        "",
        description="path of the GGUF file, a name that srb models lists (smollm2, storyteller), or hf:USER/MODEL of "
        "Hugging Face. Empty: smollm2, which make serve and srb serve fetch; where it is missing, the bundled storyteller",
    )
    alias: str = Field(
        "",
        description="name of the model in answers; further names follow after commas; empty: the name that `model` is, or "
        "the file's",
    )
    tags: str = Field("", description="tags of the model in GET /v1/models, separated by commas")
    models: Annotated[str, BeforeValidator(_listed)] = Field(
        "",
        description="several models, of which a request names one: a folder of GGUF files, or models separated by commas, "
        "each a path, a name or hf:USER/MODEL as in model, or NAME=one of these. The first is loaded at the start, or the "
        "one that model names; others are loaded when they are asked for. In a list, tables have a model of their own (name,"
        " model) or name one of the folder, and settings for it alone: [[models]]. Empty: one model",
    )
    models_autoload: bool = Field(
        True, description="with models, load a model when a request names it; off: only POST /models/load does"
    )
    max_engines: int = Field(
        1,
        ge=1,
        le=64,
        description="with models, how many are loaded at once, each in an engine process of its own, as far as the memory "
        "of this machine has room for them",
    )
    model_seconds: int = Field(
        10,
        ge=0,
        description="with models, seconds for which a loaded model that has requests keeps its place while another is "
        "wished for; then it finishes the requests that run, and the other is loaded",
    )
    n_ctx: int = Field(
        8192, ge=0, le=2**24, description="KV cells shared by all branches; 0: the model's training context"
    )
    n_batch: int = Field(2048, ge=1, description="limit of the tokens in one step")
    n_ubatch: int = Field(
        512,
        ge=1,
        description="tokens that llama.cpp computes at once, and limit of the prompt tokens in one step; a cancel waits "
        "for at most one such step",
    )
    n_seq_max: int = Field(
        0,
        ge=0,
        le=256,
        description="number of sequence ids; 0: 256 on a GPU, 96 on a CPU, 32 for recurrent models, whose sequences take "
        "memory, half as many for models with sliding windows (swa_full)",
    )
    n_gpu_layers: int = Field(
        -1, ge=-1, description="layers on the GPU or the RPC nodes; -1: all (no effect without either)"
    )
    threads: int = Field(
        0,
        ge=0,
        description="threads for steps of one token; 0: one per usable core, and fewer while other programs use the cores",
    )
    threads_batch: int = Field(
        0,
        ge=0,
        description="threads for all other steps; 0: same as threads. If this or threads is set, neither is adapted",
    )
    nice: int = Field(
        1,
        ge=0,
        le=19,
        description="added to the nice value of the engine process, so that other programs come first where cores are short",
    )
    numa: Literal["off", "distribute", "isolate", "numactl", "mirror"] = Field(
        "off", description="placement of threads and memory by llama.cpp on a machine with several NUMA nodes"
    )
    flash_attn: Literal["auto", "on", "off"] = Field(
        "auto",
        description="flash attention; auto: as llama.cpp decides. On a CPU, in a build of llama.cpp without shared keys, "
        "branches may be faster without it, and prompts slower",
    )
    cache_type_k: CacheType = Field("f16", description="data type of the keys in the KV store")
    cache_type_v: CacheType = Field(
        "f16", description="data type of the values in the KV store; quantized types need flash attention"
    )
    swa_full: SwitchOrAuto = Field(
        "auto",
        description="for models with sliding windows, a KV cache of full size, so that texts are reused up to any place; "
        "off: the small cache of the newest windows, with which texts are reused up to checkpoints and by few sequences "
        "(n_seq_max 0: 4); auto: on if the KV store takes at most half of the memory that is free beside the model, and at "
        "most 6 GiB",
    )
    mmap: bool = Field(True, description="map the model file into memory instead of reading it")
    mlock: bool = Field(False, description="lock the model in memory")
    main_gpu: int = Field(
        0, ge=0, description="GPU that holds the model (split_mode none) or intermediate results (row)"
    )
    split_mode: Literal["none", "layer", "row", "tensor"] = Field(
        "layer", description="division of the model among several GPUs"
    )
    tensor_split: Annotated[str, AfterValidator(_proportions)] = Field(
        "",
        description="proportions of the model for each RPC node and then each GPU, such as 3,2; empty: by free memory",
    )
    rpc: Annotated[str, AfterValidator(_nodes)] = Field(
        "",
        description="RPC nodes (srb rpc-node) that compute a part of the model's layers, for a model that is too large for "
        "one machine: HOST:PORT, several separated by commas; empty: none. docs/cluster.md",
    )

    backend_sampling: SwitchOrAuto = Field(
        "auto",
        description="choose tokens on the GPU where a branch's samplers allow it; auto: if a few steps at the start are "
        "faster with it, and never on a CPU or with RPC nodes",
    )
    token_healing: SwitchOrAuto = Field(
        "auto",
        description="let the last characters of a prompt become part of the next token; auto: in the srb dialect",
    )
    text_overlap: SwitchOrAuto = Field(
        "auto",
        description="turn tokens into text while the GPU computes the next ones; auto: if a few steps at the start show "
        "that it computes on by itself, and never on a CPU",
    )
    kv_offload: bool = Field(True, description="keep the KV of layers on the GPU in GPU memory")
    op_offload: bool = Field(True, description="compute long prompts on the GPU even for layers in host memory")
    check_tensors: bool = Field(False, description="check the model file for invalid numbers while it is loaded")
    rope_scaling: Literal["auto", "none", "linear", "yarn"] = Field(
        "auto", description="RoPE scaling of positions beyond the trained context; auto: the model's"
    )
    rope_freq_base: float = Field(0, ge=0, description="base frequency of RoPE; 0: the model's")
    rope_freq_scale: float = Field(
        0, ge=0, description="scale of RoPE's frequencies, such as 0.5 for twice the context; 0: the model's"
    )
    yarn_orig_ctx: int = Field(0, ge=0, description="trained context for YaRN; 0: the model's")
    yarn_ext_factor: float = Field(-1, description="extrapolation mix of YaRN; below 0: the model's")
    yarn_attn_factor: float = Field(-1, description="attention magnitude of YaRN; below 0: the model's")
    yarn_beta_slow: float = Field(-1, description="high correction dimension of YaRN; below 0: the model's")
    yarn_beta_fast: float = Field(-1, description="low correction dimension of YaRN; below 0: the model's")
    context_shift: bool = Field(
        False,
        description="at the end of the context, discard the older half of the text and continue; only for requests of one "
        "branch",
    )
    n_keep: int = Field(
        0, ge=-1, description="tokens at the beginning of a text that a context shift never discards; -1: the prompt"
    )

    embedding: bool = Field(False, description="serve /embedding and /v1/embeddings")
    pooling: Literal["auto", "none", "mean", "cls", "last", "rank"] = Field(
        "auto", description="pooling of the token vectors of a text; auto: the model's; rank: same as reranking"
    )
    reranking: bool = Field(False, description="serve /rerank; needs a reranking model")
    lora: Annotated[str, AfterValidator(_adapters)] = Field(
        "", description="LoRA adapters, separated by commas: the path of a GGUF file, or path=scale; empty: none"
    )

    mmproj: FilePath = Field(
        "",
        description="path of the model's multimodal projector, a GGUF file: prompts may have pictures and sounds; "
        "empty: text only",
    )
    mmproj_offload: bool = Field(True, description="run the projector on the GPU, if the model is there")
    image_min_tokens: int = Field(
        -1,
        ge=-1,
        description="fewest tokens of a picture, for projectors that choose by its size. -1: as the file says",
    )
    image_max_tokens: int = Field(
        -1, ge=-1, description="most tokens of a picture, for projectors that choose by its size. -1: as the file says"
    )

    media_path: FilePath = Field(
        "", description="folder whose files chats may name as file:// URLs, as pictures and sounds; empty: none"
    )
    media_hosts: str = Field(
        "",
        description="hosts from which pictures and sounds are fetched for chats, separated by commas; * for all with "
        "public addresses. Empty: none, and chats bring the data themselves",
    )

    # Prefix tree
    cache_cells: int = Field(
        -1,
        ge=-1,
        description="limit of the KV cells that idle texts occupy, which slow every step; further texts are parked in host "
        "memory. -1: 4096 on a GPU, 0 on a CPU, where parking and restoring cost almost nothing",
    )
    cache_ram_mib: int = Field(
        2048,
        ge=0,
        description="host memory for parked KV and checkpoints, in MiB; 0: idle texts are kept in the cells only",
    )
    checkpoint_every: int = Field(
        -1,
        ge=-1,
        description="for recurrent layers (LFM2, Mamba, Qwen3-Next, Granite 4) and swa_full off: tokens between the "
        "checkpoints of a text, saved states from which it goes on, so an edit computes at most so many tokens before its "
        "place; in the last tokens of a prompt they are four times as close. -1: 256 (512 on a GPU), more for large "
        "states; 0: only at the ends of prompts and branches",
    )

    state_dir: FilePath = Field(
        "", description="folder that stores named states across restarts; empty: named states are kept in memory only"
    )

    state_dir_mib: int = Field(
        20480,
        ge=0,
        description="limit of the size of all files in state_dir, in MiB; beyond it, states that requests stored are "
        "removed, least recently used first; states saved with POST /slots are never removed. 0: no limit",
    )

    spec_type: Literal["auto", "none", "ngram", "draft", "both"] = Field(
        "auto",
        description="speculation: tokens that probably follow are computed with a branch's newest one, and kept as far as "
        "its sampler draws the same. ngram: they are those that followed the last three tokens before, in the prompt or "
        "the branch; draft: those that spec_draft_model finds likeliest; both: ngram, and draft where that finds none; "
        "auto: draft with spec_draft_model, else none. Only while it pays, by measured step times; so a text may differ by "
        "rounding from run to run",
    )
    spec_draft_model: FilePath = Field(
        "",
        description="path of the draft model, a GGUF file: a small model with the model's vocabulary (spec_type); "
        "empty: none",
    )
    spec_draft_n_max: int = Field(16, ge=1, le=32, description="most tokens that are drafted for a branch in one step")
    spec_draft_n_min: int = Field(
        0, ge=0, le=32, description="drafts of the draft model with fewer tokens are not used"
    )
    spec_draft_p_min: float = Field(
        0,
        ge=0,
        le=1,
        description="a draft ends before a token to which the draft model gives a smaller probability; 0: at none",
    )
    spec_draft_ngl: int = Field(-1, ge=-1, description="layers of the draft model on the GPU; -1: all")
    spec_draft_type_k: CacheType = Field("f16", description="data type of the keys in the draft model's KV store")
    spec_draft_type_v: CacheType = Field(
        "f16",
        description="data type of the values in the draft model's KV store; quantized types need flash attention",
    )

    # Engine
    max_queue: int = Field(
        256,
        ge=1,
        description="requests that may wait in the queue, besides those that have room; further ones are answered 429",
    )
    parallel: Annotated[int, AfterValidator(_not_zero)] = Field(
        -1,
        ge=-1,
        le=256,
        description="requests that run at once, each with all its branches; further ones wait in the "
        "queue; -1: as many as there is room for",
    )
    queue_timeout: int = Field(
        300, ge=0, description="seconds that a request may wait in the queue, then it is answered 503; 0: no limit"
    )
    request_timeout: int = Field(
        0,
        ge=0,
        description="seconds after a request's arrival at which its branches end, with the text they have; 0: no limit",
    )
    stall_timeout: int = Field(
        30,
        ge=0,
        description="time limit for one step before the engine is restarted: this many seconds, plus as many for every 64 "
        "tokens in the step; and for the preparation of a request: as many, plus as many for every MiB of it, and ten times "
        "that for a picture; 0: no limit",
    )
    engine_managed: bool = Field(
        True, description="start the engine with the web server; false: another service starts it, such as systemd"
    )
    runtime_dir: FilePath = Field(
        "",
        description="folder of the engine's socket and lock, mode 0700; empty: chosen by user and listening address",
    )

    # Cluster
    cluster: str = Field(
        "",
        pattern=r"^(auto|[^\s/]+:\d{1,5})?$",
        description="Ray cluster whose replicas answer in the place of an engine of this machine: auto for the Ray that "
        "runs on this machine, or HOST:PORT; empty: none. docs/cluster.md",
    )
    cluster_states_mib: int = Field(
        1024,
        ge=0,
        description="memory of the cluster, in MiB, in which its replicas share named states if state_dir is empty; 0: none",
    )

    @model_validator(mode="before")
    @classmethod
    def _with_profile(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Add the profile's settings to those that were given; an unknown profile is refused as the field's value."""
        return {**PROFILES.get(str(given.get("profile")), {}), **given}

    @model_validator(mode="after")
    def _consistent(self) -> Settings:
        if self.n > self.max_n:
            raise ValueError(f"n ({self.n}) is more than max_n ({self.max_n})")
        if bool(self.ssl_key_file) != bool(self.ssl_cert_file):
            raise ValueError("HTTPS needs both ssl_key_file and ssl_cert_file")
        if self.grammar and self.json_schema:
            raise ValueError("grammar and json_schema exclude each other")
        if self.spec_type in ("draft", "both") and not self.spec_draft_model:
            raise ValueError(f"spec_type {self.spec_type} needs spec_draft_model, the path of a GGUF file")
        if self.spec_draft_n_min > self.spec_draft_n_max:
            raise ValueError(
                f"spec_draft_n_min ({self.spec_draft_n_min}) is more than spec_draft_n_max ({self.spec_draft_n_max})"
            )
        if 0 < self.image_max_tokens < self.image_min_tokens:
            raise ValueError(
                f"image_min_tokens ({self.image_min_tokens}) is more than image_max_tokens ({self.image_max_tokens})"
            )
        if self.models:
            self._check_models()
        return self

    def _check_models(self) -> None:
        """Raise ValueError for settings that do not go with several models."""
        if self.cluster:
            raise ValueError("models and cluster exclude each other: the replicas of a cluster have one model")
        if not self.engine_managed:
            raise ValueError("models needs engine_managed, since the server starts and ends the models' engines")
        if self.alias:
            raise ValueError(
                "alias names one model; with models, give it in the table of the model that has these names"
            )
        for name in OF_ONE_MODEL:
            if getattr(self, name):
                raise ValueError(
                    f"{name} fits one model; with models, give it in the table ([[models]]) or section of that model"
                )

    @property
    def in_profile(self) -> dict[str, Any]:
        """The profile's settings that are in force; those that were given other values by hand are left out."""
        return {name: value for name, value in PROFILES[self.profile].items() if getattr(self, name) == value}

    @property
    def state_seconds(self) -> int:
        """Seconds that the engine may spend on writing states after it is told to stop."""
        return self.graceful_timeout if self.state_dir else 0

    @classmethod
    def load(cls, flags: Mapping[str, Any] | None = None, environ: Mapping[str, str] = os.environ) -> Settings:
        """Merge the profile, the file that SRB_CONFIG names, SRB_* variables and `flags`, later ones winning.

        Raise ConfigError, which names the key and its source, for an unknown key or a value out of range.
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
            raise ConfigError(explain(error, sources)) from None

    def load_api_keys(self) -> tuple[str, ...]:
        """Return the keys of `api_key` and `api_key_file`; without any, no client needs a key.

        Raise ConfigError for a file that cannot be read, and if one of the two is set but has no key.
        """
        found: list[str] = []
        if self.api_key_file:
            lines = read_text("api_key_file", self.api_key_file).splitlines()
            found = [key for line in lines if not line.startswith("#") and (key := line.strip())]
        keys = tuple(split_commas(self.api_key) + found)
        if not keys and (self.api_key or self.api_key_file):
            raise ConfigError("api_key or api_key_file is set, but has no key")
        return keys

    @property
    def adapts_threads(self) -> bool:
        """Whether the engine may compute with fewer threads than there are cores: no number of them is set."""
        return not self.threads and not self.threads_batch

    @property
    def hosts(self) -> list[str]:
        """The addresses and socket paths to listen on."""
        return split_commas(self.host)

    @property
    def stories_path(self) -> Path | None:
        """The file of the stories, or None if there is none, or no home folder for it."""
        if not self.stories:
            return None
        if self.stories != "auto":
            return Path(self.stories)
        try:
            data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
        except RuntimeError:  # this user has no home folder
            return None
        return Path(data, "srb", "stories.sqlite3")

    @property
    def model_path(self) -> Path:
        return model_file(self.model)

    @property
    def model_alias(self) -> str:
        return self.model_aliases[0]

    @property
    def model_aliases(self) -> list[str]:
        """The model's names, at least one; answers carry the first."""
        return split_commas(self.alias) or [self.model if self.model in NAMED_MODELS else self.model_path.stem]

    @property
    def model_tags(self) -> list[str]:
        return split_commas(self.tags)

    @property
    def adapters(self) -> list[tuple[Path, float]]:
        """The file and the scale of each LoRA adapter."""
        found = []
        for part in split_commas(self.lora):
            path, separator, scale = part.rpartition("=")
            found.append((Path(expanded(path)), float(scale)) if separator else (Path(expanded(part)), 1.0))
        return found

    @property
    def rpc_nodes(self) -> tuple[Node, ...]:
        return nodes_of(self.rpc)

    @property
    def mmproj_path(self) -> Path:
        return Path(self.mmproj)

    @property
    def draft_model_path(self) -> Path:
        return Path(self.spec_draft_model)

    @property
    def has_draft_model(self) -> bool:
        """Whether a draft model is used."""
        return bool(self.spec_draft_model) and self.spec_type in ("auto", "draft", "both")

    @property
    def looks_up_drafts(self) -> bool:
        """Whether drafts are looked up in the text itself."""
        return self.spec_type in ("ngram", "both")

    @property
    def has_drafts(self) -> bool:
        """Whether tokens are drafted at all."""
        return self.has_draft_model or self.looks_up_drafts

    @property
    def of_draft_model(self) -> Settings:
        """The settings of the draft model's context: the model's own, but for those that have others beside them.

        Its threads are the model's, and its memory can be cut.
        """
        changes: dict[str, Any] = {
            "model": self.spec_draft_model,
            "n_gpu_layers": self.spec_draft_ngl,
            "cache_type_k": self.spec_draft_type_k,
            "cache_type_v": self.spec_draft_type_v,
            "swa_full": "on",
            "backend_sampling": "off",
            "text_overlap": "off",
            **dict.fromkeys(("lora", "mmproj", "rpc", "tensor_split"), ""),
            **dict.fromkeys(("embedding", "reranking"), False),
        }
        return self.model_copy(update={**changes, "pooling": "auto", "spec_draft_model": ""})

    @property
    def runtime_path(self) -> Path:
        """The folder of the engine's socket, lock and status. Its path is short: a socket's path has at most 107 bytes."""
        if self.runtime_dir:
            return Path(self.runtime_dir)
        return default_runtime_path(str(self.port))

    @property
    def socket_path(self) -> Path:
        return self.runtime_path / SOCKET_NAME


def default_runtime_path(name: str) -> Path:
    """Return this user's runtime folder of a name: below XDG_RUNTIME_DIR, or in /tmp."""
    base = os.environ.get("XDG_RUNTIME_DIR")
    return Path(base, f"srb-{name}") if base else Path("/tmp", f"srb-{os.getuid()}-{name}")


def setting_text(value: object) -> str:
    """Return a setting's value as help, first screen and docs show it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value).replace("\n", "\\n") or "empty"


def split_commas(text: str) -> list[str]:
    """Return the non-empty items of a text separated by commas, without the space around them."""
    return [item for part in text.split(",") if (item := part.strip())]


def _from_file(path: str) -> list[tuple[str, dict[str, Any]]]:
    if not path:
        return []
    try:
        return [(path, tomllib.loads(Path(expanded(path)).read_text("utf-8")))]
    except OSError as error:
        raise ConfigError(f"{CONFIG_VARIABLE}: cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from None
    except ValueError as error:
        raise ConfigError(f"{CONFIG_VARIABLE}: {path}: {error}") from None


def _from_environment(environ: Mapping[str, str]) -> list[tuple[str, dict[str, Any]]]:
    return [
        (name, {name.removeprefix(ENV_PREFIX).lower(): value})
        for name, value in environ.items()
        if name.startswith(ENV_PREFIX) and name not in (CONFIG_VARIABLE, REPLICA_VARIABLE, SERVER_ID_VARIABLE)
    ]


def explain(error: ValidationError, sources: Mapping[str, str]) -> str:
    """Return in words, with their sources, which settings are wrong and how."""
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
