"""A PostgreSQL server of the tests' own, from Debian's package, and places of stories in it."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.needs import need
from tests.processes import DEADLINE, descendants, wait_for
from tests.servers import free_port

if TYPE_CHECKING:
    from srb.stories.database import Place

MakePlace = Callable[..., "Place"]

PROGRAMS = max(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name), default=None)
PASSWORD = "correct-horse"
# Nothing here must outlast the machine, and no test waits for a disk. A kill of the server loses nothing even so.
_OPTIONS = ("fsync=off", "full_page_writes=off", "shared_buffers=16MB", "max_connections=60", "autovacuum=off")


class PostgreSQL:
    """One server with a folder of its own. The role `srb` may do everything; from elsewhere it needs the PASSWORD."""

    def __init__(self) -> None:
        assert PROGRAMS is not None
        self.folder = Path(tempfile.mkdtemp(prefix="srb-postgresql-"))  # short, for the socket's path
        self.port = free_port()
        # It refuses to run as root; Debian's package has made a user for it.
        self._user: dict[str, Any] = (
            {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}
        )
        if self._user:
            shutil.chown(self.folder, "postgres", "postgres")
        secret = self.folder / "password"
        secret.write_text(PASSWORD)
        words = ["--auth-local=trust", "--auth-host=scram-sha-256", "--username=srb", f"--pwfile={secret}", "--no-sync"]
        self.run("initdb", f"--pgdata={self.folder / 'data'}", "--encoding=UTF8", "--locale=C.UTF-8", *words)
        self._popen: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start it; it ends with this process, however that ends."""
        assert PROGRAMS is not None
        words = [
            "setpriv",
            "--pdeathsig=INT",
            PROGRAMS / "postgres",
            "-D",
            self.folder / "data",
            "-k",
            self.folder,
            "-p",
            str(self.port),
        ]
        words += [word for option in (*_OPTIONS, "listen_addresses=127.0.0.1") for word in ("-c", option)]
        with (self.folder / "log").open("ab") as log:
            self._popen = subprocess.Popen(words, stdout=log, stderr=log, cwd=self.folder, **self._user)
        ready = [PROGRAMS / "pg_isready", "-q", "-h", self.folder, "-p", str(self.port)]
        wait_for(lambda: subprocess.run(ready, check=False).returncode == 0, "PostgreSQL answers")

    def end(self) -> None:
        """End it as an administrator does who does not wait for its clients."""
        assert self._popen is not None
        self._popen.send_signal(signal.SIGINT)
        self._popen.wait(DEADLINE)

    def kill(self) -> None:
        """Kill all its processes at once."""
        self.signal(signal.SIGSTOP)
        self.signal(signal.SIGKILL)
        assert self._popen is not None
        self._popen.wait(DEADLINE)

    def signal(self, signum: int) -> None:
        """Send a signal to all its processes."""
        assert self._popen is not None
        for pid in (self._popen.pid, *descendants(self._popen.pid)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signum)

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.end()
        shutil.rmtree(self.folder)

    def make(self, name: str) -> str:
        """Make a database, or one without stories of it; return its address."""
        self.sql("postgres", f"DROP DATABASE IF EXISTS {name} WITH (FORCE)", f"CREATE DATABASE {name}")
        return self.address(name)

    def address(self, name: str) -> str:
        return f"postgresql:///{name}?host={self.folder}&port={self.port}&user=srb"

    def far_address(self, name: str) -> str:
        """Return the address that another machine would use."""
        return f"postgresql://srb:{PASSWORD}@127.0.0.1:{self.port}/{name}"

    def sql(self, database: str, *statements: str) -> str:
        """Return what psql prints for the statements."""
        words = [word for statement in statements for word in ("-c", statement)]
        return self.run("psql", *("-h", self.folder), *("-p", self.port), *("-U", "srb"), "-qAtX", database, *words)

    def run(self, program: str, *words: object) -> str:
        assert PROGRAMS is not None
        command = [str(PROGRAMS / program), *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=self.folder, **self._user)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgreSQL]:
    """A server for all tests of a process, which use databases of their own."""
    need(PROGRAMS, "PostgreSQL (Debian: apt install postgresql)")
    need(importlib.util.find_spec("psycopg"), "psycopg (the extra `postgresql`)")
    server = PostgreSQL()
    yield server
    server.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> MakePlace:
    """Make places of stories by name: in both databases, so that what holds for one holds for the other."""
    if request.param == "sqlite":
        return lambda name="stories": tmp_path / f"{name}.sqlite3"
    server = request.getfixturevalue("postgresql")
    return lambda name="stories": server.make(name)
