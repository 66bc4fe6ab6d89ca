"""The shared system prompt of llama-server of 2024: a text before every prompt of the llamacpp dialect, for all clients.

A request sets it, and it applies until another request sets one. It is kept in a file, which all workers read.
"""

from pathlib import Path

import orjson

from srb.atomic import write_atomically
from srb.config.settings import Settings
from srb.config.texts import read_text
from srb.web.dialects.llamacpp.body import SystemPrompt


class SystemPromptStore:
    """The current system prompt; before a request sets one, it is that of `system_prompt_file`."""

    def __init__(self, settings: Settings, folder: Path | None) -> None:
        """Share the prompt with other workers through `folder`. Raise ConfigError for an unreadable system_prompt_file."""
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
        """Set the prompt for all workers, atomically."""
        if self._path is None:
            self._prompt = prompt
            return
        write_atomically(self._path, prompt.model_dump_json().encode())


def _from_file(name: str) -> SystemPrompt:
    """Read a JSON object with `prompt`, `anti_prompt` and `assistant_name`, llama-server's form, or plain text."""
    if not name:
        return SystemPrompt()
    text = read_text("system_prompt_file", name)
    try:
        given = orjson.loads(text)
        given = given.get("system_prompt", given)  # with the name that it has in a request, or without
        return SystemPrompt.model_validate({"prompt": None} | given)
    except (ValueError, AttributeError, TypeError):
        return SystemPrompt(prompt=text)
