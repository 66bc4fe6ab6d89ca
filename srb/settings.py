"""Every setting, with its default, range and meaning: config file < SRB_* environment < command-line flags.

`Settings` is the only place where a default lives; config/default.toml documents the same ones and a test keeps the two
equal. An unknown key or a bad value is a ConfigError that names it and where it came from.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from srb.errors import ConfigError

BUNDLED_MODEL = Path(__file__).parent / "models" / "storyteller.gguf"
ENV_PREFIX = "SRB_"
CONFIG_VARIABLE = "SRB_CONFIG"  # names the config file; not a setting itself

CacheType = Literal["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1"]


def _proportions(text: str) -> str:
    try:
        shares = [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise ValueError("should be numbers separated by commas, such as 3,2") from None
    if any(share < 0 for share in shares):
        raise ValueError("shares cannot be negative")
    return text


class Settings(BaseModel):
    """The frozen settings of one server; build them with `Settings.load()`."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    # Web server
    host: str = Field("127.0.0.1", description="address to listen on; 0.0.0.0 for every interface")
    port: int = Field(9090, ge=0, le=65535, description="TCP port; 0 lets the system choose")
    workers: int = Field(1, ge=1, le=64, description="web worker processes")
    worker_connections: int = Field(2000, ge=1, description="connections one worker serves at once")
    graceful_timeout: int = Field(30, ge=1, description="seconds that running streams get when the server stops")
    keepalive: int = Field(5, ge=1, description="seconds an idle connection is kept, and a request's headers may take")
    write_timeout: int = Field(30, ge=1, description="seconds without progress before a slow reader is cancelled")
    sse_ping_interval: int = Field(15, ge=1, description="seconds of silence before a keep-alive comment is sent")
    max_body_bytes: int = Field(4 * 1024 * 1024, ge=1024, description="largest request body, in bytes")
    metrics: bool = Field(True, description="serve GET /metrics (Prometheus text)")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="least severe lines to log")

    # What a request gets when it does not say
    n: int = Field(8, ge=1, le=255, description="branches of a request in the srb dialect that names no n")
    max_n: int = Field(64, ge=1, le=255, description="most branches that one request may ask for")
    default_max_tokens: int = Field(128, ge=-1, description="tokens a branch in the srb dialect may have; -1: no limit")
    completions_format: Literal["auto", "srb", "openai", "openai-stream"] = Field(
        "auto", description="dialect of POST /v1/completions: auto decides by the body, see docs/api.md"
    )

    # Model and context
    model: str = Field("", description="path of the GGUF file; empty: the bundled storyteller")
    alias: str = Field("", description="name of the model in answers; empty: the file's name")
    n_ctx: int = Field(8192, ge=0, description="KV cells shared by all branches; 0: the model's training context")
    n_batch: int = Field(2048, ge=1, description="most tokens computed in one step")
    n_ubatch: int = Field(
        512, ge=1, description="tokens computed at once within a step; also one prompt's share of a step"
    )
    n_seq_max: int = Field(
        0,
        ge=0,
        le=256,
        description="sequences that exist at once; 0: 256, or 32 where each costs memory (recurrent models)",
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

    # Prefix tree
    cache_cells: int = Field(
        4096, ge=0, description="idle KV cells kept ready at once; more of them slow every step, so the rest is parked"
    )
    cache_ram_mib: int = Field(
        2048, ge=0, description="host memory for parked KV, in MiB; 0: what does not stay in the cells is forgotten"
    )

    state_dir: str = Field(
        "", description="folder of named states, which outlive the server; empty: they are kept in memory only"
    )

    # Engine
    max_queue: int = Field(256, ge=1, description="requests that may wait; more are answered 429")
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

    @property
    def model_path(self) -> Path:
        return Path(self.model).expanduser() if self.model else BUNDLED_MODEL

    @property
    def model_alias(self) -> str:
        return self.alias or self.model_path.stem

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
            given = f", got {problem['input']!r}" if key else ""
            lines.append(f"{key or 'settings'}{where}: {message}{given}")
    return "; ".join(lines)
