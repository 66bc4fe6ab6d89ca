"""Profiles: the port, dialect and defaults of the servers whose place this one takes, each by one word.

A profile has every default of its server's document that clients, operators or logs can notice, and that is a setting with
another default here. It leaves alone what only speed and memory depend on (batch sizes, KV types, `cache_prompt`). The table
in docs/coming-from.md is made from `PROFILES`.
"""

from collections.abc import Mapping
from typing import Any, Literal

ProfileName = Literal["none", "llama-srb-api", "llama-server", "rust", "cria"]

# The settings of each ProfileName. A value that is given by hand has precedence.
PROFILES: Mapping[str, Mapping[str, Any]] = {
    "none": {},
    "llama-srb-api": {"port": 9090, "n": 8, "completions_format": "srb"},
    "llama-server": {  # of 2024
        "port": 8080,
        "n": 1,
        "completions_format": "openai",
        "n_ctx": 512,
        "context_shift": True,
        "repeat_penalty": 1.1,
        "client_timeout": 600,
        "metrics": False,
        "log_format": "json",
    },
    "rust": {"port": 8080, "n": 1, "n_ctx": 2048, "repeat_penalty": 1.3},
    "cria": {"port": 3000, "n": 1, "completions_format": "openai-stream"},
}
