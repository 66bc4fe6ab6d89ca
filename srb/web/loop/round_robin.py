"""Round robin of clients: of the calls that are there at one time, those of each client begin one after the other.

A thousand calls of one client take a worker for a second, one behind the other. Another client's is the next one here.
"""

from collections import deque

from gevent.hub import Waiter, get_hub


class RoundRobin:
    """Lets one call at a time begin: the next when the one before it first waits for something, or has ended."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[Waiter]] = {}  # by client, the one whose turn is next first
        self._is_taken = False

    def __repr__(self) -> str:
        return f"<RoundRobin {sum(map(len, self._waiting.values()))} calls of {len(self._waiting)} clients wait>"

    def wait(self, client: str) -> None:
        """Wait for the client's turn."""
        if self._is_taken:
            waiter = Waiter()
            self._waiting.setdefault(client, deque()).append(waiter)
            waiter.get()
        else:
            self._is_taken = True
            get_hub().loop.run_callback(self._pass_on)

    def _pass_on(self) -> None:
        if not self._waiting:
            self._is_taken = False
            return
        get_hub().loop.run_callback(self._pass_on)  # first: the call may take this greenlet's place for long
        client = next(iter(self._waiting))
        calls = self._waiting.pop(client)
        waiter = calls.popleft()
        if calls:
            self._waiting[client] = calls  # behind all others
        waiter.switch(None)
