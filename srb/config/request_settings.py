"""The first half of the settings, as they are declared: the web server, limits, and defaults of requests."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

from srb.config.profiles import ProfileName
from srb.config.sampling_params import MAX_GRAMMAR, PARAMETERS, Parameter
from srb.config.values import Biases, Dialects, FilePath, Hosts, JsonObject, JsonSchema, Proxies, Strings
from srb.extensions import ALL

# Types of the sampling settings that are written as text.
_TEXTS: dict[str, Any] = {
    "samplers": Annotated[str, Field(pattern=r"^[\w;-]*$")],
    "dry_sequence_breakers": Strings,
    "logit_bias": Biases,
    "grammar": Annotated[str, Field(max_length=MAX_GRAMMAR)],
    "json_schema": JsonSchema,
}


class RequestSettings(BaseModel):
    """The first half of the settings: the web server, limits, and defaults of requests."""

    # Built at the first use: of the classes that hold settings only the last one is.
    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=(), defer_build=True)

    # Profile
    profile: ProfileName = Field(
        "none",
        description="port, dialect and defaults of another server; a setting that is given has precedence over the "
        "profile's. docs/coming-from.md lists the profiles",
    )

    # Web server
    host: Hosts = Field(
        "127.0.0.1",
        description="address to listen on, or the path of a Unix socket (ends in .sock); several separated by commas; "
        "0.0.0.0: every interface",
    )
    # 9090: llama-srb-api's.
    port: int = Field(9090, ge=0, le=65535, description="TCP port; 0 lets the system choose")
    reuse_port: bool = Field(False, description="allow several servers to listen on the same port (SO_REUSEPORT)")
    workers: int = Field(1, ge=1, le=64, description="web worker processes")
    # A browser has at most six connections to a server: 300 pages, where each connection costs a greenlet and a descriptor.
    worker_connections: int = Field(
        2000,
        ge=1,
        description="connections that one worker serves at once, at most 200 fewer than its limit of descriptors; beyond "
        "them the one that has been idle for longest gives way; one address has at most as many as are free beside it",
    )
    # Ten minutes: who comes back by then finds the branches as they were; all that lingers takes memory.
    max_linger: int = Field(
        600, ge=0, description="most seconds that a request may linger after its last branch or reader; 0: none may"
    )
    # gunicorn's own. A longer one keeps old code for as long at each deploy; a shorter one cuts texts that are being read.
    graceful_timeout: int = Field(
        30, ge=1, description="seconds that open streams may continue after the server is told to stop"
    )
    keepalive: int = Field(
        5, ge=1, description="seconds that an idle connection is kept open; also the time limit for a request's headers"
    )
    # For a body of max_body_bytes that is 9 Mbit/s; a phone that changes its network is back by then. A client that sends
    # drop by drop, or reads nothing, holds its memory, cells and sequences so long.
    client_timeout: int = Field(
        30,
        ge=1,
        description="seconds in which a request's body arrives, else it is answered 408; and seconds without progress of a "
        "write after which a slow client's request is cancelled",
    )
    # While a long prompt is computed nothing is sent, and a proxy ends what is silent: nginx after 60 seconds.
    sse_ping_interval: int = Field(
        15, ge=-1, description="seconds without an event before a stream sends a keep-alive comment; -1: never"
    )
    max_body_bytes: int = Field(
        32 * 1024 * 1024,
        ge=1024,
        description="largest request body, in bytes, 1024 or more; a picture of 20 MiB has 27 MiB as base64, also in the "
        "history of a model that sees none. A worker receives eight times as much at once, an answer that it gathers may "
        "take as much, and a stream may hold an eighth of it unread",
    )
    api_prefix: str = Field(
        "", pattern=r"^(/[\w.~-]+)*$", description="path before all routes, such as /llm; no slash at the end"
    )
    dialects: Dialects = Field(
        ALL,
        description="dialects that are answered, separated by commas, or all: SRB's own and those of installed packages; "
        "routes of others are 404, and without srb there is no page",
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
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="lowest level that is logged")
    log_format: Literal["text", "json"] = Field("text", description="format of log lines; each request has one line")
    log_file: FilePath = Field(
        "", description="log file, reopened after it was moved or removed; empty: standard error"
    )
    log_prompts: bool = Field(False, description="also log the prompts of requests")
    traces: bool = Field(
        False,
        description="send OpenTelemetry's spans of each POST request, without its texts, to where OTEL_* variables say; "
        "needs pip install 'llama-srb[traces]'",
    )

    # Access
    api_key: str = Field(
        "",
        repr=False,
        description="API keys, separated by commas; each request must carry one; empty: no key is needed",
    )
    api_key_file: FilePath = Field(
        "",
        description="file of API keys, one per line, each by itself or with the name of the person who has it (NAME:KEY); "
        "keys with the name metrics may only read /metrics and /health; a line may end with a key's own max_n "
        "(NAME:KEY max_n=8); lines that begin with # are skipped",
    )
    allowed_hosts: str = Field(
        "",
        description="host names that requests may be addressed to, separated by commas; needed behind a proxy that "
        "forwards the Host header. A server without keys on a loopback address answers only to localhost",
    )
    trusted_proxies: Proxies = Field(
        "",
        description="addresses and networks of proxies, separated by commas, whose X-Forwarded-For header tells the "
        "client's address in logs and limits; unix: whoever connects to a Unix socket; empty: the header has no effect",
    )
    cors_origins: str = Field(
        "*",
        description="origins of web pages that may use the server, separated by commas; *: any, which without keys control "
        "only requests that they have started; localhost: pages of this machine",
    )
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
    # With n's default 64 branches, of the 96 sequences that a CPU has: others find room beside who leaves many rounds.
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

    # Defaults of requests
    # At most 255: of llama.cpp's 256 sequences one is the prompt's.
    n: int = Field(8, ge=1, le=255, description="branches of a request in the srb dialect that has no n")
    # The page is measured with so many cards (bench/page), and a CPU's 96 sequences leave a third to others.
    max_n: int = Field(
        64, ge=1, le=255, description="largest n that a request may ask for; of a cluster, for each replica"
    )
    default_max_tokens: int = Field(
        0,
        ge=-1,
        description="max_tokens of a request that has none; -1: no limit; 0: 128 in the srb dialect, else no limit",
    )
    stop: Strings = Field("", description="stop string that ends a branch; several as a JSON list")
    cache_prompt: bool = Field(True, description="reuse computed text, and keep new text for reuse")
    cache_apart: bool = Field(
        False,
        description="share computed text only among requests of one API key (of one name), so that nobody finds out by "
        "`cache_n` what others have sent; a common beginning is then computed and kept for each of them",
    )
    completions_format: Literal["auto", "srb", "openai", "openai-stream"] = Field(
        "auto", description="dialect of POST /v1/completions; auto: chosen by the body, see docs/api.md"
    )
    system_prompt_file: FilePath = Field(
        "",
        description="file of a text that precedes every prompt of POST /completion: plain text, or a JSON object with "
        "prompt, anti_prompt and assistant_name",
    )
    spm_infill: bool = Field(False, description="put the suffix before the prefix in prompts of POST /infill")

    # Chat
    chat_template: str = Field(
        "",
        description="chat template: Jinja text, or a name that llama.cpp knows, such as llama3; empty: the model's own "
        "template, else ChatML",
    )
    chat_template_file: FilePath = Field("", description="file of the chat template; has precedence over chat_template")
    chat_template_kwargs: JsonObject = Field(
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

    class SamplingSettings(RequestSettings):
        """The sampling settings that code reads by their names."""

        grammar: str = ""
        json_schema: str = ""
else:
    SamplingSettings = create_model(
        "SamplingSettings",
        __base__=RequestSettings,
        **{name: _sampling_setting(each) for name, each in PARAMETERS.items() if each.is_setting},
    )
