"""The settings, as they are declared: the web server, limits, defaults of requests, and the engine with its model."""

import json
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

from srb.config.profiles import ProfileName
from srb.config.sampling_params import MAX_GRAMMAR, PARAMETERS, Parameter
from srb.config.values import (
    Adapters,
    Biases,
    CacheType,
    Dialects,
    FilePath,
    Hosts,
    JsonObject,
    JsonSchema,
    Layers,
    ModelList,
    Nodes,
    NotZero,
    Proportions,
    Proxies,
    ReplicaList,
    StoriesPlace,
    Strings,
    SwitchOrAuto,
    setting,
)

# Types of the sampling settings that are written as text.
_TEXTS: dict[str, Any] = {
    "samplers": Annotated[str, Field(pattern=r"^[\w;-]*$")],
    "dry_sequence_breakers": Strings,
    "logit_bias": Biases,
    "grammar": Annotated[str, Field(max_length=MAX_GRAMMAR)],
    "json_schema": JsonSchema,
}


class RequestSettings(BaseModel):
    """The settings of the web server, of limits, and the defaults of requests."""

    # Built at the first use: of the classes that hold settings only the last one is.
    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=(), defer_build=True)

    # Profile
    profile: ProfileName = setting("profile")

    # Web server
    host: Hosts = setting("host")
    port: int = setting("port")
    reuse_port: bool = setting("reuse_port")
    workers: int = setting("workers")
    worker_connections: int = setting("worker_connections")
    max_linger: int = setting("max_linger")
    graceful_timeout: int = setting("graceful_timeout")
    keepalive: int = setting("keepalive")
    client_timeout: int = setting("client_timeout")
    sse_ping_interval: int = setting("sse_ping_interval")
    max_body_bytes: int = setting("max_body_bytes")
    api_prefix: str = setting("api_prefix")
    dialects: Dialects = setting("dialects")
    static_path: FilePath = setting("static_path")
    ui: bool = setting("ui")
    stories: StoriesPlace = setting("stories")
    metrics: bool = setting("metrics")
    slots: bool = setting("slots")
    log_level: Literal["debug", "info", "warning", "error"] = setting("log_level")
    log_format: Literal["text", "json"] = setting("log_format")
    log_file: FilePath = setting("log_file")
    log_prompts: bool = setting("log_prompts")
    traces: bool = setting("traces")

    # Access
    api_key: str = setting("api_key")
    api_key_file: FilePath = setting("api_key_file")
    allowed_hosts: str = setting("allowed_hosts")
    trusted_proxies: Proxies = setting("trusted_proxies")
    cors_origins: str = setting("cors_origins")
    ssl_key_file: FilePath = setting("ssl_key_file")
    ssl_cert_file: FilePath = setting("ssl_cert_file")

    # Limits per client
    max_request_tokens: int = setting("max_request_tokens")
    max_client_requests: int = setting("max_client_requests")
    max_client_lingering: int = setting("max_client_lingering")
    usage_file: FilePath = setting("usage_file")
    rate_limit: int = setting("rate_limit")

    # Defaults of requests
    n: int = setting("n")
    max_n: int = setting("max_n")
    default_max_tokens: int = setting("default_max_tokens")
    stop: Strings = setting("stop")
    cache_prompt: bool = setting("cache_prompt")
    cache_apart: bool = setting("cache_apart")
    completions_format: Literal["auto", "srb", "openai", "openai-stream"] = setting("completions_format")
    system_prompt_file: FilePath = setting("system_prompt_file")
    spm_infill: bool = setting("spm_infill")

    # Chat
    chat_template: str = setting("chat_template")
    chat_template_file: FilePath = setting("chat_template_file")
    chat_template_kwargs: JsonObject = setting("chat_template_kwargs")
    reasoning_format: Literal["auto", "deepseek", "deepseek-legacy", "none"] = setting("reasoning_format")
    reasoning: Literal["auto", "on", "off"] = setting("reasoning")
    reasoning_effort: Literal["default", "minimal", "low", "medium", "high", "xhigh", "max"] = setting(
        "reasoning_effort"
    )
    reasoning_budget: Annotated[int, Field(ge=-1, le=2**31 - 1)] = setting("reasoning_budget")

    # Sampling defaults of requests; the other settings of this section are made from PARAMETERS
    seed: int = setting("seed")


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


class EngineSettings(SamplingSettings):
    """The settings of the model, its memory, and the process that has it."""

    # Model and context
    model: FilePath = setting("model")
    alias: str = setting("alias")
    models: ModelList = setting("models")
    max_engines: int = setting("max_engines")
    model_seconds: int = setting("model_seconds")
    n_ctx: int = setting("n_ctx")
    n_batch: int = setting("n_batch")
    n_ubatch: int = setting("n_ubatch")
    step_ms: int = setting("step_ms")
    n_seq_max: int = setting("n_seq_max")
    n_gpu_layers: int = setting("n_gpu_layers")
    threads: int = setting("threads")
    threads_batch: int = setting("threads_batch")
    nice: int = setting("nice")
    flash_attn: Literal["auto", "on", "off"] = setting("flash_attn")
    cache_type_k: CacheType = setting("cache_type_k")
    cache_type_v: CacheType = setting("cache_type_v")
    swa_full: SwitchOrAuto = setting("swa_full")
    mmap: SwitchOrAuto = setting("mmap")
    mlock: bool = setting("mlock")
    main_gpu: int = setting("main_gpu")
    split_mode: Literal["none", "layer", "row", "tensor"] = setting("split_mode")
    tensor_split: Proportions = setting("tensor_split")
    rpc: Nodes = setting("rpc")

    token_healing: SwitchOrAuto = setting("token_healing")
    kv_offload: bool = setting("kv_offload")
    rope_scaling: Literal["auto", "none", "linear", "yarn"] = setting("rope_scaling")
    rope_freq_base: float = setting("rope_freq_base")
    rope_freq_scale: float = setting("rope_freq_scale")
    yarn_orig_ctx: int = setting("yarn_orig_ctx")
    context_shift: bool = setting("context_shift")

    embedding: bool = setting("embedding")
    pooling: Literal["auto", "none", "mean", "cls", "last", "rank"] = setting("pooling")
    reranking: bool = setting("reranking")
    lora: Adapters = setting("lora")
    control_vector: Adapters = setting("control_vector")
    control_vector_dir: FilePath = setting("control_vector_dir")
    control_vector_layers: Layers = setting("control_vector_layers")

    mmproj: FilePath = setting("mmproj")
    mmproj_offload: bool = setting("mmproj_offload")
    image_min_tokens: int = setting("image_min_tokens")
    image_max_tokens: int = setting("image_max_tokens")

    media_path: FilePath = setting("media_path")
    media_hosts: str = setting("media_hosts")

    # Prefix tree
    cache_cells: int = setting("cache_cells")
    cache_ram_mib: int = setting("cache_ram_mib")

    state_dir: FilePath = setting("state_dir")

    state_dir_mib: int = setting("state_dir_mib")

    cache_disk: FilePath = setting("cache_disk")
    cache_disk_mib: int = setting("cache_disk_mib")

    spec_type: Literal["auto", "none", "ngram", "draft", "both", "mtp", "ngram-mtp"] = setting("spec_type")
    spec_draft_model: FilePath = setting("spec_draft_model")

    # Engine
    max_queue: int = setting("max_queue")
    parallel: NotZero = setting("parallel")
    queue_timeout: int = setting("queue_timeout")
    request_timeout: int = setting("request_timeout")
    stall_timeout: int = setting("stall_timeout")
    engine_managed: bool = setting("engine_managed")
    runtime_dir: FilePath = setting("runtime_dir")

    # Cluster
    cluster: str = setting("cluster")
    replicas: ReplicaList = setting("replicas")
    door_token_file: FilePath = setting("door_token_file")
