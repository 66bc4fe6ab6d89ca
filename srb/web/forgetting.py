"""Computed texts of a deleted story, or of revoked keys, are forgotten: by engines that run, by others when they start."""

import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from uuid import uuid4

import gevent

from srb.config.settings import Settings
from srb.errors import SRBError
from srb.forgotten import note_keys, note_story
from srb.web.calls.engine_client import EngineClient
from srb.web.loop.yielding import in_thread
from srb.wire.commands import ForgetTexts, digest_of

log = logging.getLogger("srb.web")


class Forgetting:
    """The end of texts that a worker has to have forgotten; no answer waits for it."""

    def __init__(self, settings: Settings, engines: Callable[[], Iterable[EngineClient]]) -> None:
        self._settings = settings
        self._engines = engines

    def forget_story(self, story: str) -> None:
        """Forget the texts that were computed for a story alone."""
        digest = digest_of(story)
        gevent.spawn(self._forget, lambda folder: note_story(folder, digest), ForgetTexts("", (digest,)))

    def note_keys(self, owners: Iterable[str]) -> None:
        """Forget the texts of keys that were among the server's, and are not among `owners`, once its engines are there."""
        keys = [digest_of(owner) for owner in owners]
        server = digest_of(str(self._settings.stories_place or self._settings.runtime_path))
        folder = self._settings.texts_path
        try:
            gone = in_thread(note_keys, folder, server, keys) if folder is not None else []
        except OSError as error:
            log.warning("%s: the texts of keys that were revoked are not removed: %s", folder, error.strerror)
            return
        if gone:
            log.info("the texts of %d revoked keys are forgotten", len(gone))
            self._tell(ForgetTexts("", keys=tuple(gone)))

    def _forget(self, note: Callable[[Path], object], command: ForgetTexts) -> None:
        folder = self._settings.texts_path
        try:
            if folder is not None:
                in_thread(note, folder)
        except OSError as error:
            log.warning("%s: texts of models that are not loaded stay: %s", folder, error.strerror)
        self._tell(command)

    def _tell(self, command: ForgetTexts) -> None:
        for client in self._engines():
            try:
                client.ask(ForgetTexts(uuid4().hex, command.stories, command.keys))
            except SRBError as error:  # it does so when it starts
                log.info("an engine forgets the texts of what was deleted when it starts again: %s", error.message)
