"""Every setting, with its default, range and meaning: profile < config file < SRB_* environment < command-line flags.

Defaults, ranges and meanings are in settings.toml; config/default.toml is generated, and a test keeps it equal. An unknown
key or a bad value raises a ConfigError that names the key and its source.
"""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError, model_validator

from srb.config.api_keys import ApiKey, read_api_keys
from srb.config.named_models import NAMED_MODELS, model_file
from srb.config.profiles import PROFILES
from srb.config.request_settings import EngineSettings
from srb.config.rpc_nodes import Node, nodes_of
from srb.config.texts import read_text
from srb.config.values import OF_ONE_MODEL, expanded, is_address, split_commas
from srb.errors import ConfigError
from srb.extensions import ALL
from srb.reasons import reason_of

ENV_PREFIX = "SRB_"
TEXT_FILES = ("api_key_file", "chat_template_file", "system_prompt_file")  # settings that name files which workers read
_SECRET = {"api_key", "stories"}  # values that no error message quotes
SOCKET_NAME = "engine.sock"  # the engine's socket, in the runtime folder
STATES_SOCKET = "states.sock"  # a replica's socket, by which its engine shares named states with others
CONFIG_VARIABLE = "SRB_CONFIG"  # names the config file; not a setting itself
REPLICA_VARIABLE = "SRB_REPLICA"  # set by a replica of a cluster for its engine: the name in its logs; not a setting
SERVER_ID_VARIABLE = "SRB_SERVER_ID"  # set by the server for its workers and its engine; not a setting either

# What holds in the place of settings of earlier versions.
_FORMER: dict[str, str] = tomllib.loads(Path(__file__).with_name("former.toml").read_text("utf-8"))

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

_MAX_TOKENS_OF_SRB = 128  # some sentences, which a reader of eight branches compares at a glance

# Paths by the dialect. On srb's a body may have any field; on openai's one with a sampler's has one answer.
_EXAMPLES = {"srb": "/v1/srb/completions", "openai": "/v1/completions", "llamacpp": "/completion"}


class Settings(EngineSettings):
    """The frozen settings of one server, built with `Settings.load()`: checks across them, and what follows from them."""

    @model_validator(mode="before")
    @classmethod
    def _with_profile(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Add the profile's settings to those that were given; an unknown profile is refused as the field's value."""
        return {**PROFILES.get(str(given.get("profile")), {}), **given}

    @model_validator(mode="after")
    def _consistent(self) -> "Settings":
        if self.n > self.max_n:
            raise ValueError(f"n ({self.n}) is more than max_n ({self.max_n})")
        if bool(self.ssl_key_file) != bool(self.ssl_cert_file):
            raise ValueError("HTTPS needs both ssl_key_file and ssl_cert_file")
        if self.grammar and self.json_schema:
            raise ValueError("grammar and json_schema exclude each other")
        if self.spec_type in ("draft", "both") and not self.spec_draft_model:
            raise ValueError(f"spec_type {self.spec_type} needs spec_draft_model, the path of a GGUF file")
        if 0 < self.image_max_tokens < self.image_min_tokens:
            raise ValueError(
                f"image_min_tokens ({self.image_min_tokens}) is more than image_max_tokens ({self.image_max_tokens})"
            )
        if self.cluster and self.replicas:
            raise ValueError(
                "cluster and replicas exclude each other: one names a Ray cluster, the other is without Ray"
            )
        if self.models:
            self._check_models()
        return self

    def _check_models(self) -> None:
        """Raise ValueError for settings that do not go with several models."""
        if self.has_replicas:
            name = "cluster" if self.cluster else "replicas"
            raise ValueError(f"models and {name} exclude each other: the replicas of a cluster have one model")
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
    def max_tokens(self) -> int:
        """The limit of tokens of a request that has none, in the dialects but SRB's own and Kobold's; -1: no limit."""
        return self.default_max_tokens or -1

    @property
    def max_tokens_of_srb(self) -> int:
        """The same in SRB's own dialect and Kobold's, whose clients ask again for more."""
        return self.default_max_tokens or _MAX_TOKENS_OF_SRB

    @property
    def in_profile(self) -> dict[str, Any]:
        """The profile's settings that are in force; those that were given other values by hand are left out."""
        return {name: value for name, value in PROFILES[self.profile].items() if getattr(self, name) == value}

    def has_dialect(self, name: str) -> bool:
        """Whether the routes of a dialect are answered."""
        return self.dialects == ALL or name in self.dialects.split(",")

    @property
    def example_path(self) -> str:
        """A path that continues the `prompt` of a body, without the prefix; empty if no dialect that has one is answered."""
        return next((path for name, path in _EXAMPLES.items() if self.has_dialect(name)), "")

    @property
    def has_replicas(self) -> bool:
        """Whether replicas answer in the place of an engine of this machine."""
        return bool(self.cluster or self.replicas)

    @property
    def state_seconds(self) -> int:
        """Seconds that the engine may spend on writing states and texts after it is told to stop."""
        return self.graceful_timeout if self.state_dir or self.texts_path else 0

    @classmethod
    def load(cls, flags: Mapping[str, Any] | None = None, environ: Mapping[str, str] = os.environ) -> "Settings":
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

    def load_api_keys(self) -> tuple[ApiKey, ...]:
        """Return the keys of `api_key`, which have no names, and of `api_key_file`; without any, no client needs a key.

        Raise ConfigError for a file that cannot be read or has a wrong line, if one of the two is set but has no key, and
        for a key with a budget where nothing is counted.
        """
        found = [ApiKey(key) for key in split_commas(self.api_key)]
        if self.api_key_file:
            found += read_api_keys(read_text("api_key_file", self.api_key_file))
        keys = tuple(found)
        if not keys and (self.api_key or self.api_key_file):
            raise ConfigError("api_key or api_key_file is set, but has no key")
        if not self.usage_file and any(each.tokens_per_day or each.tokens_per_month for each in keys):
            raise ConfigError("api_key_file: tokens_per_day and tokens_per_month need the setting usage_file")
        return keys

    @property
    def adapts_threads(self) -> bool:
        """Whether the engine may compute with fewer threads than there are cores: no number of them is set."""
        return not self.threads and not self.threads_batch

    @property
    def max_bodies_bytes(self) -> int:
        """Memory of the large bodies that one worker receives at a time; read from JSON they take several times that."""
        return 8 * self.max_body_bytes

    @property
    def max_answer_bytes(self) -> int:
        """Memory of an answer that is not streamed, and of all that a stream holds back.

        At 32 MiB it has 64 branches of 128 tokens with the log-probabilities of 64 tokens at each place.
        """
        return 8 * self.max_body_bytes

    @property
    def max_unread_bytes(self) -> int:
        """Output that a stream may hold unread: at 32 MiB, ten minutes of 64 branches that write a token a second."""
        return max(65536, self.max_body_bytes // 8)

    @property
    def hosts(self) -> list[str]:
        """The addresses and socket paths to listen on."""
        return split_commas(self.host)

    @property
    def stories_place(self) -> Path | str | None:
        """The file of the stories, or the address of their database; None if there is none, or no home folder for it."""
        if not self.stories:
            return None
        if self.stories != "auto":
            return self.stories if is_address(self.stories) else Path(self.stories)
        try:
            data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
        except RuntimeError:  # this user has no home folder
            return None
        return Path(data, "srb", "stories.sqlite3")

    @property
    def texts_path(self) -> Path | None:
        """The folder of computed texts, or None if there is none, or no home folder for it."""
        if not self.cache_disk or not self.cache_disk_mib:
            return None
        if self.cache_disk != "auto":
            return Path(self.cache_disk)
        try:
            cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        except RuntimeError:  # this user has no home folder
            return None
        return Path(cache, "srb", "texts")

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
    def adapters(self) -> list[tuple[Path, float]]:
        """The file and the scale of each LoRA adapter."""
        return _scaled(self.lora)

    @property
    def control_vectors(self) -> list[tuple[Path, float]]:
        """The file and the scale of each control vector that requests have which name none."""
        return _scaled(self.control_vector)

    @property
    def vector_layers(self) -> tuple[int, int]:
        """The first and the last layer that control vectors change."""
        first, separator, last = self.control_vector_layers.partition(",")
        return (int(first), int(last)) if separator else (1, 2**31)

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
        return bool(self.spec_draft_model) and self.spec_type not in ("none", "ngram")

    @property
    def uses_head(self) -> bool:
        """Whether the head in the model's file drafts; with `spec_draft_model` it is the one there."""
        return self.spec_type in ("mtp", "ngram-mtp") and not self.spec_draft_model

    @property
    def looks_up_drafts(self) -> bool:
        """Whether drafts are looked up in the text itself."""
        return self.spec_type in ("ngram", "both", "ngram-mtp")

    @property
    def has_drafts(self) -> bool:
        """Whether tokens are drafted at all."""
        return self.has_draft_model or self.uses_head or self.looks_up_drafts

    @property
    def of_draft_model(self) -> "Settings":
        """The settings of the draft model's context: the model's own, but for the file and its layers on the GPU.

        Its threads are the model's, and its memory can be cut.
        """
        changes: dict[str, Any] = {
            "model": self.spec_draft_model,
            "n_gpu_layers": -1 if self.n_gpu_layers else 0,
            "swa_full": "on",
            **dict.fromkeys(("lora", "control_vector", "control_vector_dir", "mmproj", "rpc", "tensor_split"), ""),
            **dict.fromkeys(("embedding", "reranking"), False),
        }
        return self.model_copy(update={**changes, "pooling": "auto", "spec_draft_model": "", "spec_type": "none"})

    @property
    def runtime_path(self) -> Path:
        """The folder of the engine's socket, lock and status. Its path is short: a socket's path has at most 107 bytes."""
        if self.runtime_dir:
            return Path(self.runtime_dir)
        return default_runtime_path(str(self.port))

    @property
    def socket_path(self) -> Path:
        return self.runtime_path / SOCKET_NAME


def _scaled(text: str) -> list[tuple[Path, float]]:
    """Return paths, separated by commas, each with the scale that follows it or with 1."""
    found = []
    for part in split_commas(text):
        path, separator, scale = part.rpartition("=")
        found.append((Path(expanded(path)), float(scale)) if separator else (Path(expanded(part)), 1.0))
    return found


def default_runtime_path(name: str) -> Path:
    """Return this user's runtime folder of a name: below XDG_RUNTIME_DIR, or in /tmp."""
    base = os.environ.get("XDG_RUNTIME_DIR")
    return Path(base, f"srb-{name}") if base else Path("/tmp", f"srb-{os.getuid()}-{name}")


def _from_file(path: str) -> list[tuple[str, dict[str, Any]]]:
    if not path:
        return []
    try:
        return [(path, tomllib.loads(Path(expanded(path)).read_text("utf-8")))]
    except OSError as error:
        raise ConfigError(f"{CONFIG_VARIABLE}: cannot read {path}: {reason_of(error, expanded(path))}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from None
    except ValueError as error:
        raise ConfigError(f"{CONFIG_VARIABLE}: {path}: {error}") from None


def _from_environment(environ: Mapping[str, str]) -> list[tuple[str, dict[str, Any]]]:
    return [
        (name, {name.removeprefix(ENV_PREFIX).lower(): value})
        for name, value in without_service_links(environ).items()
        if name.startswith(ENV_PREFIX) and name not in (CONFIG_VARIABLE, REPLICA_VARIABLE, SERVER_ID_VARIABLE)
    ]


def without_service_links(environ: Mapping[str, str]) -> dict[str, str]:
    """Leave out what Kubernetes sets in each pod for a Service named `srb…`, such as SRB_PORT=tcp://10.0.0.1:80."""
    end = "_SERVICE_HOST"
    services = [name.removesuffix(end) for name in environ if name.startswith(ENV_PREFIX) and name.endswith(end)]
    if "KUBERNETES_SERVICE_HOST" not in environ or not services:
        return dict(environ)
    ports = {f"{each}_PORT" for each in services}
    details = tuple(f"{each}_{what}_" for each in services for what in ("SERVICE", "PORT"))
    return {
        name: value
        for name, value in environ.items()
        if not name.startswith(details) and not (name in ports and "://" in value)
    }


def explain(error: ValidationError, sources: Mapping[str, str]) -> str:
    """Return in words, with their sources, which settings are wrong and how."""
    lines = []
    for problem in error.errors():
        key = ".".join(str(part) for part in problem["loc"])
        where = f" (from {sources[key]})" if key in sources else ""
        if problem["type"] == "extra_forbidden" and key in _FORMER:
            lines.append(f"{key}{where} is no setting any more, leave it out: {_FORMER[key]}")
        elif problem["type"] == "extra_forbidden":
            lines.append(f"unknown setting {key!r}{where}")
        else:
            message = problem["msg"].removeprefix("Value error, ")
            given = f", got {problem['input']!r}" if key and key not in _SECRET else ""
            lines.append(f"{key or 'settings'}{where}: {message}{given}")
    return "; ".join(lines)
