"""One log line for each request: what was asked, what came of it, how long it took. No prompts unless a setting asks."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

from srb import logs
from srb.client import Mailbox
from srb.protocol import Done, Failed, Generate, Rejected

log = logging.getLogger("srb.web")

BEGAN = "srb.began"  # key of a WSGI environ: time.monotonic()
_HAS_LINE = "srb.has_line"  # key of one: a call that generates has a line of its own, when it ends
_LONGEST_PATH = 200


def answered(environ: Mapping[str, Any], status: str) -> None:
    """Log an answer whose status (WSGI's, "200 OK") is known; of what is merely looked at, only failures."""
    if _HAS_LINE in environ:
        return
    asked, code = _asked(environ), int(status[:3])
    ms = 1000 * (time.monotonic() - environ[BEGAN])
    looked = code < 400 and asked["method"] in ("GET", "HEAD", "OPTIONS")
    fields = asked | {"status": code, "ms": round(ms, 1)}
    text = "%(method)s %(path)s %(client)s: %(status)d, %(ms).0f ms"
    log.log(logging.DEBUG if looked else logging.INFO, text, fields, extra=logs.with_fields(fields))


class CallLine:
    """The line of one generating call."""

    def __init__(self, environ: MutableMapping[str, Any], commands: Sequence[Generate], *, prompts: bool) -> None:
        """Note what was asked; with `prompts` the line also has the prompts themselves."""
        environ[_HAS_LINE] = True
        self._asked = _asked(environ)
        self._commands = commands
        self._prompts = prompts
        self._began = environ.get(BEGAN, time.monotonic())

    def write(self, mailbox: Mailbox) -> None:
        """Log the line; `mailbox` knows how the call ended."""
        done = [event for event in mailbox.ended if isinstance(event, Done)]
        failed = [event.slug for event in mailbox.ended if isinstance(event, Rejected | Failed)]
        prompt = sum(mailbox.prompt_tokens.values())
        cached = sum(event.cached_tokens for event in done)
        new = sum(event.completion_tokens for event in done)
        fields = self._asked | {
            "id": self._commands[0].request_id,
            "outcome": failed[0] if failed else "done" if done else "refused",
            "branches": sum(len(command.branches) for command in self._commands),
            "prompt_tokens": prompt,
            "cached_tokens": cached,
            "restored_tokens": sum(event.restored_tokens for event in done),
            "computed_tokens": prompt - cached,
            "completion_tokens": new,
            "tokens_per_second": round(1000 * new / (sum(event.predicted_ms for event in done) or 1), 1),
            "ms": round(1000 * (time.monotonic() - self._began), 1),
        }
        text = (
            "%(method)s %(path)s %(client)s %(id)s: %(outcome)s, %(branches)d branches, prompt %(prompt_tokens)d "
            "(cached %(cached_tokens)d, restored %(restored_tokens)d, computed %(computed_tokens)d), "
            "new %(completion_tokens)d tokens, %(tokens_per_second).0f/s, %(ms).0f ms"
        )
        if self._prompts:
            fields["prompts"] = [list(command.prompt) for command in self._commands]
            text += ", prompts %(prompts)s"
        log.info(text, fields, extra=logs.with_fields(fields))


def _asked(environ: Mapping[str, Any]) -> dict[str, Any]:
    """Return who asked for what. A query is left out: clients put keys there."""
    path = str(environ.get("RAW_URI") or environ.get("PATH_INFO", "")).partition("?")[0]
    return {
        "method": environ.get("REQUEST_METHOD", ""),
        "path": path[:_LONGEST_PATH],
        "client": environ.get("REMOTE_ADDR") or "local",
    }
