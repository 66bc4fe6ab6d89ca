"""The system prompt of 2024: a text that stands before every prompt of the llamacpp dialect, shared by all clients.

A request sets it once and it holds until another does. It lives in a small file, so that all workers see the same.
"""

from __future__ import annotations

import os
from pathlib import Path

import orjson

from srb.errors import ConfigError
from srb.settings import Settings
from srb.web.llamacpp_schemas import SystemPrompt


class SystemPromptStore:
    """Read and write the prompt in force; without one set by a request it is that of `system_prompt_file`."""

    def __init__(self, settings: Settings, folder: Path | None) -> None:
        """Share it through `folder` with other workers. Raise ConfigError for a system_prompt_file that is unreadable."""
        self._path = folder / "system_prompt.json" if folder else None
        self._prompt = _from_file(settings.system_prompt_file)

    def get(self) -> SystemPrompt:
        if self._path is None:
            return self._prompt
        try:
            return SystemPrompt.model_validate_json(self._path.read_bytes())
        except FileNotFoundError:
            return self._prompt

    def set(self, prompt: SystemPrompt) -> None:
        """Put `prompt` in force for all workers, at once and whole."""
        if self._path is None:
            self._prompt = prompt
            return
        partial = self._path.with_suffix(f".{os.getpid()}.partial")
        partial.write_text(prompt.model_dump_json(), "utf-8")
        os.replace(partial, self._path)


def _from_file(name: str) -> SystemPrompt:
    """A JSON object with `prompt`, `anti_prompt` and `assistant_name`, as llama-server took it, or plain text."""
    if not name:
        return SystemPrompt()
    try:
        text = Path(name).expanduser().read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise ConfigError(f"system_prompt_file: cannot read {name}: {reason}") from None
    try:
        given = orjson.loads(text)
        given = given.get("system_prompt", given)  # with the name that it has in a request, or without
        return SystemPrompt.model_validate({"prompt": None} | given)
    except (ValueError, AttributeError, TypeError):
        return SystemPrompt(prompt=text)
