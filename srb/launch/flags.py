"""llama-server's options as options of `srb serve`: the setting of each, or the reason why it has no effect here.

Names, LLAMA_ARG_* variables and numbers of values are those of llama.cpp's common/arg.cpp; a few are those of the older
servers that SRB replaces. In addition every setting has an option of its own name (see options.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson

from srb.config.sampling_params import PARAMETERS
from srb.errors import ConfigError

TRUE, FALSE = ("on", "enabled", "true", "1"), ("off", "disabled", "false", "0")
ON_OFF_AUTO = (*TRUE, *FALSE, "auto", "-1")
# No settings: the download of the model and its projector.
BEFORE_START = ("hf_repo", "hf_file", "hf_token", "model_url", "mmproj_url", "mmproj_auto", "offline", "models_preset")
NOT_YET = "not supported yet"

_NO_LIMIT_MIB = 2**30  # a PiB, more than any machine has: the setting knows no word for "no limit"
_NO_LIMIT_ENGINES = 64  # the most that max_engines takes
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "'": "'", '"': '"', "\\": "\\"}


@dataclass(frozen=True, slots=True)
class Flag:
    """One setting of an option; an option that sets two has two Flags, which differ in `sets`, `convert` and `value`.

    An option takes one word, the setting's value. A `switch` takes none: its `names` set `value`, its names in `off`
    set "false". `convert` makes the value of all words that the command line has for the option, in their order.
    """

    names: str  # separated by spaces
    sets: str = ""  # a setting, or one of BEFORE_START; empty: nothing, for the reason in `why`
    variable: str = ""
    off: str = ""
    switch: bool = False
    value: str = "true"
    convert: Callable[[Sequence[str]], str] | None = None
    adds: bool = False  # the value is appended, after a comma, to the value from earlier options
    optional: Sequence[str] = ()  # the possible words of an option whose word may be missing
    words: int = 1
    why: str = ""
    refused: bool = False  # an error: without the option, another model would be served or another program was meant

    def value_of(self, words: Sequence[str]) -> str:
        """Return the setting's value for the words of the option."""
        return self.convert(words) if self.convert else words[-1]


def _layers(words: Sequence[str]) -> str:
    return "-1" if words[-1] in ("all", "auto") else words[-1]


def _on_off_auto(words: Sequence[str]) -> str:
    word = words[-1]
    return "on" if word in TRUE else "off" if word in FALSE else "auto" if word == "-1" else word


def _auto(words: Sequence[str]) -> str:
    return "-1" if words[-1] == "auto" else words[-1]


def _mebibytes(words: Sequence[str]) -> str:
    return str(_NO_LIMIT_MIB) if words[-1] == "-1" else words[-1]


def _engines(words: Sequence[str]) -> str:
    return str(_NO_LIMIT_ENGINES) if words[-1] == "0" else words[-1]  # 0 is no limit


def _maps(words: Sequence[str]) -> str:
    return str(words[-1] in ("auto", "mmap", "mmap+mlock")).lower()


def _locks(words: Sequence[str]) -> str:
    return str(words[-1] in ("mlock", "mmap+mlock")).lower()


def _severity(words: Sequence[str]) -> str:
    """Return the log level of llama-server's number, which counts upwards from errors; the setting refuses other words."""
    levels = {"-1": "error", "0": "error", "1": "error", "2": "warning", "3": "info"}
    return levels.get(words[-1], "debug" if words[-1].isdigit() else words[-1])


def _speculation(words: Sequence[str]) -> str:
    """Return the setting for llama-server's types; those that look up n-grams in the text are one here."""
    kinds = {
        "ngram" if each.startswith("ngram") else "draft" if each in ("draft", "draft-simple") else each
        for each in words[-1].split(",")
    }
    return "both" if kinds == {"ngram", "draft"} else kinds.pop() if len(kinds) == 1 else words[-1]


def _inverse(words: Sequence[str]) -> str:
    try:
        return str(1 / float(words[-1]))
    except (ValueError, ZeroDivisionError):
        return words[-1]  # the setting refuses it


def _scaled(words: Sequence[str]) -> str:
    """Convert llama-server's `path:scale,…` to the setting's `path=scale,…`."""
    return ",".join("=".join(part.rsplit(":", 1)) for part in words[-1].split(","))


def _letters(words: Sequence[str]) -> str:
    return ";".join(words[-1])


def _unescaped(words: Sequence[str]) -> str:
    """Return the words as a JSON list, with escapes such as \\n replaced as llama-server does."""
    texts = [re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[0]), word, flags=re.DOTALL) for word in words]
    return orjson.dumps(texts).decode()


def _first_string(words: Sequence[str]) -> str:
    first: str = orjson.loads(_unescaped(words))[0]
    return first


def _breakers(words: Sequence[str]) -> str:
    return _unescaped([] if words[-1] == "none" else words)


def _file_text(words: Sequence[str]) -> str:
    try:
        return Path(words[-1]).expanduser().read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {words[-1]}: {getattr(error, 'strerror', None) or 'it is not text'}") from None


_WITH_EFFECT = (
    Flag("-t --threads --num-threads", "threads", "LLAMA_ARG_THREADS"),
    Flag("-tb --threads-batch", "threads_batch"),
    Flag("--numa", "numa", "LLAMA_ARG_NUMA", optional=("distribute", "isolate", "numactl", "mirror", "off")),
    Flag("-c --ctx-size --num-ctx-tokens", "n_ctx", "LLAMA_ARG_CTX_SIZE"),
    Flag("-n --predict --n-predict", "n_predict", "LLAMA_ARG_N_PREDICT"),
    Flag("-n --predict --n-predict", "default_max_tokens", "LLAMA_ARG_N_PREDICT"),
    Flag("-b --batch-size", "n_batch", "LLAMA_ARG_BATCH"),
    Flag("-ub --ubatch-size", "n_ubatch", "LLAMA_ARG_UBATCH"),
    Flag("-np --parallel", "parallel", "LLAMA_ARG_N_PARALLEL", convert=_auto),
    Flag("-cram --cache-ram", "cache_ram_mib", "LLAMA_ARG_CACHE_RAM", convert=_mebibytes),
    Flag(
        "-cms --checkpoint-min-step",
        "checkpoint_every",
        "LLAMA_ARG_CHECKPOINT_MIN_SPACING_NT",
        convert=lambda words: "-1" if words[-1] == "0" else words[-1],  # 0 is no minimum
    ),
    Flag("--context-shift", "context_shift", "LLAMA_ARG_CONTEXT_SHIFT", off="--no-context-shift", switch=True),
    Flag("-fa --flash-attn", "flash_attn", "LLAMA_ARG_FLASH_ATTN", convert=_on_off_auto, optional=ON_OFF_AUTO),
    Flag("--swa-full", "swa_full", "LLAMA_ARG_SWA_FULL", convert=_on_off_auto, optional=ON_OFF_AUTO),
    Flag(
        "-bs --backend-sampling",
        "backend_sampling",
        "LLAMA_ARG_BACKEND_SAMPLING",
        convert=_on_off_auto,
        optional=ON_OFF_AUTO,
    ),
    Flag("--spec-type", "spec_type", "LLAMA_ARG_SPEC_TYPE", convert=_speculation),
    Flag("--spec-default", "spec_type", switch=True, value="ngram"),
    Flag("--spec-draft-model -md --model-draft", "spec_draft_model", "LLAMA_ARG_SPEC_DRAFT_MODEL"),
    Flag("--spec-draft-n-max", "spec_draft_n_max", "LLAMA_ARG_SPEC_DRAFT_N_MAX"),
    Flag("--draft --draft-n --draft-max", "spec_draft_n_max", "LLAMA_ARG_DRAFT_MAX"),
    Flag("--spec-draft-n-min", "spec_draft_n_min", "LLAMA_ARG_SPEC_DRAFT_N_MIN"),
    Flag("--draft-min --draft-n-min", "spec_draft_n_min", "LLAMA_ARG_DRAFT_MIN"),
    Flag("--spec-draft-p-min --draft-p-min", "spec_draft_p_min", "LLAMA_ARG_SPEC_DRAFT_P_MIN"),
    Flag(
        "--spec-draft-ngl -ngld --gpu-layers-draft --n-gpu-layers-draft",
        "spec_draft_ngl",
        "LLAMA_ARG_N_GPU_LAYERS_DRAFT",
        convert=_layers,
    ),
    Flag("--spec-draft-type-k -ctkd --cache-type-k-draft", "spec_draft_type_k", "LLAMA_ARG_SPEC_DRAFT_CACHE_TYPE_K"),
    Flag("--spec-draft-type-v -ctvd --cache-type-v-draft", "spec_draft_type_v", "LLAMA_ARG_SPEC_DRAFT_CACHE_TYPE_V"),
    Flag("-r --reverse-prompt", "stop", convert=_unescaped),
    Flag("-r --reverse-prompt", "user_name", convert=_first_string),
    Flag("-s --seed", "seed"),
    *(
        Flag(each.flags, name, each.variable, switch=each.type is bool)
        for name, each in PARAMETERS.items()
        if each.flags
    ),
    Flag("--sampler-seq --sampling-seq", "samplers", convert=_letters),
    Flag("--dry-sequence-breaker", "dry_sequence_breakers", convert=_breakers),
    Flag("-l --logit-bias", "logit_bias", adds=True),
    Flag("--grammar-file", "grammar", convert=_file_text),
    Flag("-jf --json-schema-file", "json_schema", convert=_file_text),
    Flag("-ctk --cache-type-k", "cache_type_k", "LLAMA_ARG_CACHE_TYPE_K"),
    Flag("-ctv --cache-type-v", "cache_type_v", "LLAMA_ARG_CACHE_TYPE_V"),
    Flag("-lm --load-mode", "mmap", "LLAMA_ARG_LOAD_MODE", convert=_maps),
    Flag("-lm --load-mode", "mlock", "LLAMA_ARG_LOAD_MODE", convert=_locks),
    Flag("-ngl --gpu-layers --n-gpu-layers", "n_gpu_layers", "LLAMA_ARG_N_GPU_LAYERS", convert=_layers),
    Flag("-sm --split-mode", "split_mode", "LLAMA_ARG_SPLIT_MODE"),
    Flag("-ts --tensor-split", "tensor_split", "LLAMA_ARG_TENSOR_SPLIT"),
    Flag("-mg --main-gpu", "main_gpu", "LLAMA_ARG_MAIN_GPU"),
    Flag("--rpc", "rpc", "LLAMA_ARG_RPC"),
    Flag("-a --alias", "alias", "LLAMA_ARG_ALIAS", adds=True),
    Flag("-m --model", "model", "LLAMA_ARG_MODEL"),
    Flag("-mu --model-url", "model_url", "LLAMA_ARG_MODEL_URL"),
    Flag("-hf -hfr --hf-repo", "hf_repo", "LLAMA_ARG_HF_REPO"),
    Flag("-hff --hf-file", "hf_file", "LLAMA_ARG_HF_FILE"),
    Flag("-hft --hf-token", "hf_token", "HF_TOKEN"),
    Flag("--models-dir", "models", "LLAMA_ARG_MODELS_DIR"),
    Flag("--models-preset", "models_preset", "LLAMA_ARG_MODELS_PRESET"),
    Flag("--models-max", "max_engines", "LLAMA_ARG_MODELS_MAX", convert=_engines),
    Flag("--models-autoload", "models_autoload", "LLAMA_ARG_MODELS_AUTOLOAD", off="--no-models-autoload", switch=True),
    Flag("-mm --mmproj", "mmproj", "LLAMA_ARG_MMPROJ"),
    Flag("-mmu --mmproj-url", "mmproj_url", "LLAMA_ARG_MMPROJ_URL"),
    Flag("--mmproj-auto", "mmproj_auto", "LLAMA_ARG_MMPROJ_AUTO", off="--no-mmproj --no-mmproj-auto", switch=True),
    Flag("--mmproj-offload", "mmproj_offload", "LLAMA_ARG_MMPROJ_OFFLOAD", off="--no-mmproj-offload", switch=True),
    Flag("--image-min-tokens", "image_min_tokens", "LLAMA_ARG_IMAGE_MIN_TOKENS"),
    Flag("--image-max-tokens", "image_max_tokens", "LLAMA_ARG_IMAGE_MAX_TOKENS"),
    Flag("--media-path", "media_path"),
    Flag("--offline", "offline", "LLAMA_ARG_OFFLINE", switch=True),
    Flag("--host", "host", "LLAMA_ARG_HOST"),
    Flag("--port -P", "port", "LLAMA_ARG_PORT"),
    Flag("--reuse-port", "reuse_port", "LLAMA_ARG_REUSE_PORT", switch=True),
    Flag("--path", "static_path", "LLAMA_ARG_STATIC_PATH"),
    Flag("--cors-origins", "cors_origins", "LLAMA_ARG_CORS_ORIGINS"),
    Flag("--cors-methods", "cors_methods", "LLAMA_ARG_CORS_METHODS"),
    Flag("--cors-headers", "cors_headers", "LLAMA_ARG_CORS_HEADERS"),
    Flag(
        "--cors-credentials", "cors_credentials", "LLAMA_ARG_CORS_CREDENTIALS", off="--no-cors-credentials", switch=True
    ),
    Flag("--api-prefix", "api_prefix", "LLAMA_ARG_API_PREFIX"),
    Flag("--ui --webui", "ui", "LLAMA_ARG_UI", off="--no-ui --no-webui", switch=True),
    Flag("--api-key", "api_key", "LLAMA_API_KEY", adds=True),
    Flag("--api-key-file", "api_key_file", "LLAMA_ARG_API_KEY_FILE"),
    Flag("--ssl-key-file", "ssl_key_file", "LLAMA_ARG_SSL_KEY_FILE"),
    Flag("--ssl-cert-file", "ssl_cert_file", "LLAMA_ARG_SSL_CERT_FILE"),
    Flag("--chat-template", "chat_template", "LLAMA_ARG_CHAT_TEMPLATE"),
    Flag("--chat-template-file", "chat_template_file", "LLAMA_ARG_CHAT_TEMPLATE_FILE"),
    Flag("--chat-template-kwargs", "chat_template_kwargs", "LLAMA_ARG_CHAT_TEMPLATE_KWARGS"),
    Flag("--reasoning-format", "reasoning_format", "LLAMA_ARG_THINK"),
    Flag(
        "--prefill-assistant",
        "prefill_assistant",
        "LLAMA_ARG_PREFILL_ASSISTANT",
        off="--no-prefill-assistant",
        switch=True,
    ),
    Flag("-to --timeout", "read_timeout", "LLAMA_ARG_TIMEOUT"),
    Flag("-to --timeout", "write_timeout", "LLAMA_ARG_TIMEOUT"),
    Flag("--sse-ping-interval", "sse_ping_interval", "LLAMA_ARG_SSE_PING_INTERVAL"),
    Flag("--cache-prompt", "cache_prompt", "LLAMA_ARG_CACHE_PROMPT", off="--no-cache-prompt", switch=True),
    Flag("--metrics", "metrics", "LLAMA_ARG_ENDPOINT_METRICS", switch=True),
    Flag("--props", "props", "LLAMA_ARG_ENDPOINT_PROPS", switch=True),
    Flag("--slots", "slots", "LLAMA_ARG_ENDPOINT_SLOTS", off="--no-slots --slots-endpoint-disable", switch=True),
    Flag("--slot-save-path", "state_dir"),
    Flag("--log-disable", "log_level", switch=True, value="error"),
    Flag("--log-file", "log_file", "LLAMA_ARG_LOG_FILE"),
    Flag("--log-format", "log_format"),
    Flag("--log-jsonl", "log_format", "LLAMA_ARG_LOG_JSONL", switch=True, value="json"),
    Flag("--no-log-jsonl", "log_format", switch=True, value="text"),
    Flag("-v --verbose --log-verbose", "log_level", switch=True, value="debug"),
    Flag("-lv --verbosity --log-verbosity", "log_level", "LLAMA_ARG_LOG_VERBOSITY", convert=_severity),
    Flag("--spm-infill", "spm_infill", switch=True),
    Flag("--embd-normalize", "embd_normalize"),
    Flag("-kvo --kv-offload", "kv_offload", "LLAMA_ARG_KV_OFFLOAD", off="-nkvo --no-kv-offload", switch=True),
    Flag("--op-offload", "op_offload", off="--no-op-offload", switch=True),
    Flag("--check-tensors", "check_tensors", switch=True),
    Flag("--rope-scaling", "rope_scaling", "LLAMA_ARG_ROPE_SCALING_TYPE"),
    Flag("--rope-scale", "rope_freq_scale", "LLAMA_ARG_ROPE_SCALE", convert=_inverse),
    Flag("--rope-freq-base", "rope_freq_base", "LLAMA_ARG_ROPE_FREQ_BASE"),
    Flag("--rope-freq-scale", "rope_freq_scale", "LLAMA_ARG_ROPE_FREQ_SCALE"),
    Flag("--yarn-orig-ctx", "yarn_orig_ctx", "LLAMA_ARG_YARN_ORIG_CTX"),
    Flag("--yarn-ext-factor", "yarn_ext_factor", "LLAMA_ARG_YARN_EXT_FACTOR"),
    Flag("--yarn-attn-factor", "yarn_attn_factor", "LLAMA_ARG_YARN_ATTN_FACTOR"),
    Flag("--yarn-beta-slow", "yarn_beta_slow", "LLAMA_ARG_YARN_BETA_SLOW"),
    Flag("--yarn-beta-fast", "yarn_beta_fast", "LLAMA_ARG_YARN_BETA_FAST"),
    Flag("--lora", "lora", adds=True),
    Flag("--lora-scaled", "lora", convert=_scaled, adds=True),
    Flag("--embedding --embeddings", "embedding", "LLAMA_ARG_EMBEDDINGS", switch=True),
    Flag("--rerank --reranking", "reranking", "LLAMA_ARG_RERANKING", switch=True),
    Flag("--pooling", "pooling", "LLAMA_ARG_POOLING"),
    Flag("--keep", "n_keep"),
    Flag("-rea --reasoning", "reasoning", "LLAMA_ARG_REASONING", convert=_on_off_auto),
    Flag("--reasoning-effort", "reasoning_effort", "LLAMA_ARG_REASONING_EFFORT"),
    Flag("--reasoning-budget", "reasoning_budget", "LLAMA_ARG_THINK_BUDGET"),
    Flag("--reasoning-budget-message", "reasoning_budget_message", "LLAMA_ARG_THINK_BUDGET_MESSAGE"),
    Flag(
        "--reasoning-preserve",
        "reasoning_preserve",
        "LLAMA_ARG_REASONING_PRESERVE",
        off="--no-reasoning-preserve",
        switch=True,
    ),
    Flag(
        "--skip-chat-parsing",
        "skip_chat_parsing",
        "LLAMA_ARG_SKIP_CHAT_PARSING",
        off="--no-skip-chat-parsing",
        switch=True,
    ),
    Flag("--tags", "tags", "LLAMA_ARG_TAGS", adds=True),
    # options of older servers
    Flag("-spf --system-prompt-file", "system_prompt_file"),
    Flag("--memory-f32", "cache_type_k", switch=True, value="f32"),
    Flag("--memory-f32", "cache_type_v", switch=True, value="f32"),
    Flag("-f --float16", "cache_type_k", switch=True, value="f16"),
    Flag("-f --float16", "cache_type_v", switch=True, value="f16"),
)

# Options that are accepted and ignored, grouped by reason. Per line: names, `=N` values (default 1), environment variable.
_WITHOUT_EFFECT = {
    "all branches share one context, and as many run as fit": """
        --kv-unified-per-slot LLAMA_ARG_KV_UNIFIED_PER_SLOT
        -kvu --kv-unified -no-kvu --no-kv-unified =0 LLAMA_ARG_KV_UNIFIED
        -cb --cont-batching -nocb --no-cont-batching =0 LLAMA_ARG_CONT_BATCHING
        -fit --fit LLAMA_ARG_FIT
        -fitt --fit-target LLAMA_ARG_FIT_TARGET
        -fitc --fit-ctx LLAMA_ARG_FIT_CTX""",
    "computed text is kept in a prefix tree and reused automatically": """
        --cache-reuse LLAMA_ARG_CACHE_REUSE
        --cache-idle-slots --no-cache-idle-slots =0 LLAMA_ARG_CACHE_IDLE_SLOTS
        -sps --slot-prompt-similarity
        -dt --defrag-thold LLAMA_ARG_DEFRAG_THOLD""",
    "there are as many checkpoints as `cache_ram_mib` has room for": """
        -ctxcp --ctx-checkpoints --swa-checkpoints LLAMA_ARG_CTX_CHECKPOINTS""",
    "a prompt that was computed is found again without it; after a restart, if `cache` or `state` named it and "
    "--slot-save-path is set": """
        -R --restore-prompt""",
    "web workers use greenlets instead of threads": """
        --threads-http LLAMA_ARG_THREADS_HTTP""",
    "the operating system places and schedules the threads": """
        -C --cpu-mask
        -Cr --cpu-range
        --cpu-strict
        --prio
        --poll
        -Cb --cpu-mask-batch
        -Crb --cpu-range-batch
        --cpu-strict-batch
        --prio-batch
        --poll-batch""",
    "the model is loaded with llama.cpp's defaults": """
        --repack -nr --no-repack =0 LLAMA_ARG_REPACK
        --no-host =0 LLAMA_ARG_NO_HOST
        -lzm --lazy-mode LLAMA_ARG_LAZY_MODE
        -dev --device LLAMA_ARG_DEVICE
        -ot --override-tensor LLAMA_ARG_OVERRIDE_TENSOR
        -cmoe --cpu-moe =0 LLAMA_ARG_CPU_MOE
        -ncmoe --n-cpu-moe LLAMA_ARG_N_CPU_MOE
        -ncffn --n-cpu-ffn LLAMA_ARG_N_CPU_FFN
        --override-kv
        --use-gpu =0""",
    "control vectors are not supported": """
        --control-vector
        --control-vector-scaled
        --control-vector-layer-range =2""",
    "llama.cpp applies adapters to the model that it loads, and no longer takes a base model for them": """
        --lora-base""",
    "self-extend is not supported": """
        -gan --grp-attn-n
        -gaw --grp-attn-w""",
    "always on": """
        -e --escape --no-escape =0
        --jinja --no-jinja =0 LLAMA_ARG_JINJA""",
    "timings are always measured": """
        --perf --no-perf =0 LLAMA_ARG_PERF""",
    "the model is loaded without a warm-up run": """
        --warmup --no-warmup =0""",
    "control tokens have no text in answers": """
        -sp --special =0""",
    "the projector is where the model is, or on the CPU (`--no-mmproj-offload`)": """
        -mmdev --mmproj-device MTMD_BACKEND_DEVICE""",
    "pictures are encoded one after the other": """
        --mtmd-batch-max-tokens LLAMA_ARG_MTMD_BATCH_MAX_TOKENS""",
    "video is not supported": """
        --video-fps LLAMA_ARG_VIDEO_FPS
        --video-timestamp-interval LLAMA_ARG_VIDEO_TIMESTAMP_INTERVAL
        --video-ffmpeg-dir LLAMA_ARG_VIDEO_FFMPEG_DIR""",
    "a model stays loaded until another needs its place, or POST /models/unload": """
        --sleep-idle-seconds""",
    "the page has no settings and no tools": """
        --ui-config --webui-config LLAMA_ARG_UI_CONFIG
        --ui-config-file --webui-config-file LLAMA_ARG_UI_CONFIG_FILE
        --ui-mcp-proxy --webui-mcp-proxy --no-ui-mcp-proxy --no-webui-mcp-proxy =0 LLAMA_ARG_UI_MCP_PROXY
        --tools LLAMA_ARG_TOOLS
        --tools-runtime LLAMA_ARG_TOOLS_RUNTIME
        --mcp-servers-config LLAMA_ARG_MCP_SERVERS_CONFIG
        --mcp-servers-json LLAMA_ARG_MCP_SERVERS_JSON
        -ag --agent -no-ag --no-agent =0 LLAMA_ARG_AGENT""",
    "the form of log lines is fixed, as text or JSON (log_format)": """
        --log-prompts-dir
        --log-colors LLAMA_ARG_LOG_COLORS
        --log-prefix --no-log-prefix =0 LLAMA_ARG_LOG_PREFIX
        --log-timestamps --no-log-timestamps =0 LLAMA_ARG_LOG_TIMESTAMPS""",
    "how drafts are made is chosen by spec_type, and how long they are by measured times": """
        -lcs --lookup-cache-static
        -lcd --lookup-cache-dynamic
        --spec-synth-len LLAMA_ARG_SPEC_SYNTH_LEN
        --spec-synth-rates LLAMA_ARG_SPEC_SYNTH_RATES
        --spec-draft-p-split --draft-p-split LLAMA_ARG_SPEC_DRAFT_P_SPLIT
        --spec-ngram-mod-n-min
        --spec-ngram-mod-n-max
        --spec-ngram-mod-n-match
        --spec-ngram-simple-size-n
        --spec-ngram-simple-size-m
        --spec-ngram-simple-min-hits
        --spec-ngram-map-k-size-n
        --spec-ngram-map-k-size-m
        --spec-ngram-map-k-min-hits
        --spec-ngram-map-k4v-size-n
        --spec-ngram-map-k4v-size-m
        --spec-ngram-map-k4v-min-hits
        --spec-ngram-size-n
        --spec-ngram-size-m
        --spec-ngram-min-hits""",
    "the draft model computes with the model's threads": """
        --spec-draft-threads -td --threads-draft
        --spec-draft-threads-batch -tbd --threads-batch-draft
        --spec-draft-cpu-mask -Cd --cpu-mask-draft
        --spec-draft-cpu-range -Crd --cpu-range-draft
        --spec-draft-cpu-strict --cpu-strict-draft
        --spec-draft-prio --prio-draft
        --spec-draft-poll --poll-draft
        --spec-draft-cpu-mask-batch -Cbd --cpu-mask-batch-draft
        --spec-draft-cpu-strict-batch --cpu-strict-batch-draft
        --spec-draft-prio-batch --prio-batch-draft
        --spec-draft-poll-batch --poll-batch-draft""",
    "the draft model's layers are placed by spec_draft_ngl alone, and its tokens are chosen on the CPU": """
        --spec-draft-device -devd --device-draft
        --spec-draft-override-tensor -otd --override-tensor-draft
        --spec-draft-cpu-moe -cmoed --cpu-moe-draft =0 LLAMA_ARG_SPEC_DRAFT_CPU_MOE
        --spec-draft-n-cpu-moe --spec-draft-ncmoe -ncmoed --n-cpu-moe-draft LLAMA_ARG_SPEC_DRAFT_N_CPU_MOE
        --spec-draft-backend-sampling --no-spec-draft-backend-sampling =0 LLAMA_ARG_SPEC_DRAFT_BACKEND_SAMPLING""",
    NOT_YET: """
        --lora-init-without-apply =0""",
}

# Options that are refused, in the same form.
_REFUSED = {
    "name the draft model's file with --model-draft": """
        --spec-draft-hf -hfd -hfrd --hf-repo-draft LLAMA_ARG_SPEC_DRAFT_HF_REPO""",
    "name the model with --model or --hf-repo": """
        -dr --docker-repo LLAMA_ARG_DOCKER_REPO
        --embd-gemma-default =0
        --fim-qwen-1.5b-default =0
        --fim-qwen-3b-default =0
        --fim-qwen-7b-default =0
        --fim-qwen-7b-spec =0
        --fim-qwen-14b-spec =0
        --fim-qwen-30b-default =0
        --gpt-oss-20b-default =0
        --gpt-oss-120b-default =0
        --vision-gemma-4b-default =0
        --vision-gemma-12b-default =0""",
    "only llama-server has it": """
        -cl --cache-list =0
        --completion-bash =0
        --list-devices =0""",
}


def _rows(lines_by_reason: dict[str, str], refused: bool) -> list[Flag]:
    return [
        _row(line.split(), why, refused) for why, lines in lines_by_reason.items() for line in lines.split("\n") if line
    ]


def _row(parts: list[str], why: str, refused: bool) -> Flag:
    names = " ".join(part for part in parts if part[0] == "-")
    words = next((int(part[1:]) for part in parts if part[0] == "="), 1)
    variable = next((part for part in parts if part[0].isupper()), "")
    return Flag(names, "", variable, switch=not words, words=words, why=why, refused=refused)


FLAGS = (*_WITH_EFFECT, *_rows(_WITHOUT_EFFECT, refused=False), *_rows(_REFUSED, refused=True))
