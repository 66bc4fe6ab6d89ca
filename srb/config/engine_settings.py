"""The second half of the settings, as they are declared: model, context, prefix tree, engine and cluster."""

from __future__ import annotations

from typing import Literal

from srb.config.request_settings import SamplingSettings
from srb.config.values import (
    Adapters,
    CacheType,
    FilePath,
    Layers,
    ModelList,
    Nodes,
    NotZero,
    Proportions,
    ReplicaList,
    SwitchOrAuto,
    setting,
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
    mmap: bool = setting("mmap")
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

    spec_type: Literal["auto", "none", "ngram", "draft", "both"] = setting("spec_type")
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
