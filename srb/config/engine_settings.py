"""The second half of the settings, as they are declared: model, context, prefix tree, engine and cluster."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from srb.config.request_settings import SamplingSettings
from srb.config.values import (
    Adapters,
    CacheType,
    FilePath,
    ModelList,
    Nodes,
    NotZero,
    Proportions,
    ReplicaList,
    SwitchOrAuto,
)


class EngineSettings(SamplingSettings):
    """The settings of the model, its memory, and the process that has it."""

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
    models: ModelList = Field(
        "",
        description="several models, of which a request names one: a folder of GGUF files, or models separated by commas, "
        "each a path, a name or hf:USER/MODEL as in model, or NAME=one of these. The first is loaded at the start, or the "
        "one that model names; others are loaded when they are asked for. In a list, tables have a model of their own (name,"
        " model) or name one of the folder, and settings for it alone: [[models]]. Empty: one model",
    )
    # Each has weights and a KV store of its own; two are seldom in one machine's memory.
    max_engines: int = Field(
        1,
        ge=1,
        le=64,
        description="with models, how many are loaded at once, each in an engine process of its own, as far as the memory "
        "of this machine has room for them",
    )
    # Loading takes seconds: with fewer, clients of two models make the server load at each turn.
    model_seconds: int = Field(
        10,
        ge=0,
        description="with models, seconds for which a loaded model that has requests keeps its place while another is "
        "wished for; then it finishes the requests that run, and the other is loaded",
    )
    n_ctx: int = Field(  # 1 GiB for a model of 8 billion parameters; more are in no machine's memory than 2**24
        8192, ge=0, le=2**24, description="KV cells shared by all branches; 0: the model's training context"
    )
    # llama.cpp's defaults, of n_ubatch too.
    n_batch: int = Field(2048, ge=1, description="limit of the tokens in one step")
    n_ubatch: int = Field(
        512,
        ge=1,
        description="tokens that llama.cpp computes at once, and limit of the prompt tokens in one step; a cancel waits "
        "for at most one such step",
    )
    step_ms: int = Field(
        -1,
        ge=-1,
        le=60_000,
        description="milliseconds that a step may take with prompts beside branches that write: the prompts get "
        "as many tokens of it as measured steps have room for, and at least 5/8 of its time; by measured steps each person "
        "has an equal share, too. -1: 200 on a CPU, 50 on a GPU; 0: n_ubatch tokens and all branches, however long they "
        "take, for which all streams wait",
    )
    n_seq_max: int = Field(
        0,
        ge=0,
        le=256,  # LLAMA_MAX_SEQ
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
        le=19,  # the system's last
        description="added to the nice value of the engine process, so that other programs come first where cores are short",
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
    tensor_split: Proportions = Field(
        "",
        description="proportions of the model for each RPC node and then each GPU, such as 3,2; empty: by free memory",
    )
    rpc: Nodes = Field(
        "",
        description="RPC nodes (srb rpc-node) that compute a part of the model's layers, for a model that is too large for "
        "one machine: HOST:PORT, several separated by commas; empty: none. docs/cluster.md",
    )

    token_healing: SwitchOrAuto = Field(
        "auto",
        description="let the last characters of a prompt become part of the next token; auto: in the srb dialect",
    )
    kv_offload: bool = Field(True, description="keep the KV of layers on the GPU in GPU memory")
    rope_scaling: Literal["auto", "none", "linear", "yarn"] = Field(
        "auto", description="RoPE scaling of positions beyond the trained context; auto: the model's"
    )
    rope_freq_base: float = Field(0, ge=0, description="base frequency of RoPE; 0: the model's")
    rope_freq_scale: float = Field(
        0, ge=0, description="scale of RoPE's frequencies, such as 0.5 for twice the context; 0: the model's"
    )
    yarn_orig_ctx: int = Field(0, ge=0, description="trained context for YaRN; 0: the model's")
    context_shift: bool = Field(
        False,
        description="at the end of the context, discard the older half of the text and continue; only for requests of one "
        "branch",
    )

    embedding: bool = Field(False, description="serve /embedding and /v1/embeddings")
    pooling: Literal["auto", "none", "mean", "cls", "last", "rank"] = Field(
        "auto", description="pooling of the token vectors of a text; auto: the model's; rank: same as reranking"
    )
    reranking: bool = Field(False, description="serve /rerank; needs a reranking model")
    lora: Adapters = Field(
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
    # With the 6 GiB that swa_full may take these are the 8 GiB in which llama-server may keep texts.
    cache_ram_mib: int = Field(
        2048,
        ge=0,
        description="host memory for parked KV and checkpoints, in MiB; 0: idle texts are kept in the cells only",
    )

    state_dir: FilePath = Field(
        "", description="folder that stores named states across restarts; empty: named states are kept in memory only"
    )

    # 20 texts of 8192 tokens, of a model of 8 billion parameters; without a limit requests that name states fill the disk.
    state_dir_mib: int = Field(
        20480,
        ge=0,
        description="limit of the size of all files in state_dir, in MiB; beyond it, states that requests stored are "
        "removed, least recently used first; states saved with POST /slots are never removed. 0: no limit",
    )

    cache_disk: FilePath = Field(
        "auto",
        description="folder that keeps the computed texts across restarts, of each model apart; auto: srb/texts in "
        "XDG_CACHE_HOME, or else in ~/.cache; empty: they are kept in memory only",
    )
    cache_disk_mib: int = Field(
        -1,
        ge=-1,
        description="limit of the size of all files in cache_disk, in MiB; beyond it, texts are forgotten, least recently "
        "used first. -1: a tenth of the free space, at most 16 GiB, and never so much that less than 5 GiB stay free; "
        "0: no file",
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

    # Engine
    max_queue: int = Field(
        256,
        ge=1,
        description="requests that may wait in the queue, besides those that have room; further ones are answered 429. "
        "The last quarter is for clients who have fewer than four in it",
    )
    parallel: NotZero = Field(
        -1,
        ge=-1,
        le=256,
        description="requests that run at once, each with all its branches; further ones wait in the "
        "queue; -1: as many as there is room for",
    )
    # OpenAI's clients give up after ten minutes: before that they hear that there is no room, and when to ask again.
    queue_timeout: int = Field(
        300, ge=0, description="seconds that a request may wait in the queue, then it is answered 503; 0: no limit"
    )
    request_timeout: int = Field(
        0,
        ge=0,
        description="seconds after a request's arrival at which its branches end, with the text they have; 0: no limit",
    )
    # A step takes milliseconds, on a machine that swaps seconds. Too short, and the engine is killed at work; too long, and
    # all wait for one that hangs.
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
    replicas: ReplicaList = Field(
        "",
        description="replicas (srb replica) that answer in the place of an engine of this machine, without Ray: a TOML file "
        "of their doors, read again when it changes, or dns:NAME:PORT, a name whose addresses are asked for every two "
        "seconds; empty: none. docs/cluster.md",
    )
    door_token_file: FilePath = Field(
        "",
        description="file with the secret of the replicas' doors, at least 16 characters; the same for replicas and web "
        "machines",
    )
