"""The arbiter's workers: how many there are, what a reload replaces, and what follows if one cannot start.

gunicorn's own reload ends the old workers before the new ones serve, and gunicorn ends the whole server if a worker cannot
start. Here the old workers end when as many new ones have said that they serve; the settings that were found valid last are
held for workers that take a dead one's place; and once workers have served, one that cannot start is tried again.
"""

import queue
import signal
import time
from collections.abc import Callable
from typing import Any

from srb.backoff import Backoff
from srb.config.held import Held, hold
from srb.errors import ConfigError
from srb.exit_codes import EXIT_WORKER
from srb.host.wakefulness import Wakefulness

_MOST_CHECKS = 3  # of one reload that is asked for again meanwhile: each takes seconds, and no worker is replaced
_WAKING_SECONDS = 10.0  # after a nap of the arbiter, for workers that slept, too, to give a sign: they do each second
_NO_STATUS = -1  # no process exits with it


class Workers:
    """Takes the place of the arbiter's methods `handle_hup`, `manage_workers`, `murder_workers` and `stop`.

    Its loop calls the second and the third every second.
    """

    def __init__(
        self, server: Any, load: Callable[[], Held], check: Callable[[], Held], tell: Callable[[float, str], None]
    ) -> None:
        """Hold what `load` returns: the settings of now. `check` also tries them out. Both raise ConfigError.

        `tell` gets the outcome of each reload: when it began, and why it failed, or "" when it is in force.
        """
        self._server = server
        self._load = load
        self._check = check
        self._tell = tell
        self._began = 0.0  # the last reload, on time.monotonic()'s clock
        self._leaving: list[Any] = []  # old workers that have to stop accepting until it is in force
        self._held = self._new = load()
        hold(self._held)
        self._ending: set[int] = set()  # ages, by which gunicorn numbers its workers, of those that were told to end
        self._has_served = False
        self._backoff = Backoff()
        self._not_before = 0.0  # the next start of a worker
        self._is_asked = False  # for a reload
        self._last_old: int | None = None  # the age of the last old worker, while new ones start
        self._has_lost = False  # a new worker has ended before it served
        server.handle_hup = self.ask_reload
        server.manage_workers = self.manage
        self._end_hung, server.murder_workers = server.murder_workers, self.end_hung
        self._stop, server.stop = server.stop, self.stop
        self.is_stopping = False  # all workers are told to end, and no other begins
        self._wakefulness = Wakefulness()
        server.WORKER_BOOT_ERROR = server.APP_LOAD_ERROR = EXIT_WORKER  # whose workers' end is the server's

    def ask_reload(self) -> None:
        """Reload soon; several of these at once are one reload."""
        self._is_asked = True

    def manage(self) -> None:
        """Start and end workers as needed."""
        for worker in self._server.WORKERS.values():
            self._note_serving(worker)
        present = [each for each in self._server.WORKERS.values() if each.age not in self._ending]
        present.sort(key=lambda each: each.age)
        if self._leaving:
            self._finish_reload()
        if self._last_old is not None:
            self._replace(
                [each for each in present if each.age <= self._last_old],
                [each for each in present if each.age > self._last_old],
            )
        elif self._is_asked:
            self._is_asked = False
            self._begin_reload()
        else:
            self._keep_number(present)

    def end_hung(self) -> None:
        """End workers that give no sign, unless the arbiter itself has just slept: a pause of the machine is no hang."""
        now = time.monotonic()
        self._wakefulness.look(now)
        if not self._wakefulness.woke_within(_WAKING_SECONDS, now):
            self._end_hung()

    def stop(self, graceful: bool = True) -> None:
        """End all workers, as the server ends."""
        self.is_stopping = True
        self._stop(graceful)

    def ended(self, worker: Any) -> None:
        """Note that a worker has ended; one that never served is a reason to wait before the next start."""
        self._note_serving(worker)
        if not worker.serves[0] and worker.age not in self._ending:
            self._not_before = time.monotonic() + self._backoff.after(0)
            self._has_lost = True
        self._ending.discard(worker.age)

    def _note_serving(self, worker: Any) -> None:
        """Note that a worker serves, or has served; from then on no worker's end is the server's."""
        if worker.serves[0]:
            self._backoff, self._has_served = Backoff(), True
            self._server.WORKER_BOOT_ERROR = self._server.APP_LOAD_ERROR = _NO_STATUS

    def _keep_number(self, present: list[Any]) -> None:
        missing = self._server.num_workers - len(present)  # below 0 after SIGTTOU
        if missing > 0 and time.monotonic() >= self._not_before:
            if self._has_served:
                self._say_if_settings_differ()
            for _ in range(missing):
                self._server.spawn_worker()
        for worker in present[: max(-missing, 0)]:
            self._end(worker)

    def _say_if_settings_differ(self) -> None:
        try:
            same = self._load() == self._held
        except ConfigError as error:
            self._log(
                "a new worker has the settings that were valid last, since those of now are not: %s", error.message
            )
            return
        if not same:
            self._log("a new worker has the settings of the last start or reload; those of now need a reload (SIGHUP)")

    def _log(self, message: str, *values: object) -> None:
        self._server.log.warning(message, *values)

    # Reloads --------------------------------------------------------------------------------------------------------

    def _begin_reload(self) -> None:
        """Start new workers beside the old ones, if the settings of now are valid."""
        try:
            self._began = time.monotonic()
            held = self._check()
            for _ in range(_MOST_CHECKS - 1):
                if not self._was_asked_again():
                    break
                self._began = time.monotonic()
                held = self._check()
        except (ConfigError, OSError) as error:  # an exception that leaves the arbiter's loop ends the server
            self._refuse(error.message if isinstance(error, ConfigError) else str(error))
            return
        self._server.app.reload()
        self._server.setup(self._server.app)
        self._server.log.reopen_files()
        self._server.cfg.on_reload(self._server)
        self._last_old, self._has_lost, self._new = self._server.worker_age, False, held
        hold(held)
        for _ in range(self._server.num_workers):
            self._server.spawn_worker()

    def _was_asked_again(self) -> bool:
        """Take SIGHUPs that have come meanwhile out of the arbiter's queue; return whether there were any."""
        others: list[int] = []
        was_asked = False
        while True:
            try:
                signum = self._server.SIG_QUEUE.get_nowait()
            except queue.Empty:
                break
            if signum == signal.SIGHUP:
                was_asked = True
            else:
                others.append(signum)
        for signum in others:
            self._server.SIG_QUEUE.put_nowait(signum)
        return was_asked

    def _replace(self, old: list[Any], new: list[Any]) -> None:
        """End the old workers once the new ones serve, or the new ones if one of them could not start."""
        if self._has_lost:
            self._refuse("a new worker could not start; the old ones go on")
            hold(self._held)
            leaving = new
        elif sum(each.serves[0] == 1 for each in new) >= self._server.num_workers:
            self._held = self._new
            self._leaving = leaving = old
        else:
            return
        self._last_old = None
        for worker in leaving:
            self._end(worker)

    def _finish_reload(self) -> None:
        """Tell that a reload is in force once no old worker takes a request."""
        present = self._server.WORKERS.values()
        self._leaving = [each for each in self._leaving if each in present and each.serves[0] != 2]
        if not self._leaving:
            self._tell(self._began, "")

    def _refuse(self, reason: str) -> None:
        self._server.log.error("not reloaded: %s", reason)
        self._tell(self._began, reason)

    def _end(self, worker: Any) -> None:
        self._ending.add(worker.age)
        self._server.kill_worker(worker.pid, signal.SIGTERM)
