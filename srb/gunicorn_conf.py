"""gunicorn's configuration, all of it from Settings, and the hooks that start and stop the engine's supervisor.

The checkout's gunicorn.conf.py imports these names; an installed package is served with `-c python:srb.gunicorn_conf`.
What is wrong with the settings, the model's file or the port is said here, in one line, before anything is started.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import signal
import socket
import sqlite3
import ssl
import subprocess
import sys
import tempfile
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from gunicorn.glogging import Logger as GunicornLogger

from srb import logs
from srb.engine.runtime import EXIT_CONFIG, EXIT_MODEL
from srb.errors import ConfigError, ModelLoadFailed
from srb.gguf import check_model_file
from srb.settings import Settings
from srb.systemd import notify, without_variables
from srb.welcome import first_screen

_EXIT_PORT = 1
_FOLDER_PREFIX = "srb-web-"
_SUPERVISOR_SECONDS = 8.0  # from SIGTERM to SIGKILL; the supervisor gives the engine less
_GRACE_SECONDS = 3  # gunicorn's workers look only once a second whether they should end, and whether they may


class Logger(GunicornLogger):  # type: ignore[misc]
    """gunicorn's own lines in the form and the place of all others, and without what a client sent."""

    def setup(self, cfg: Any) -> None:
        super().setup(cfg)
        handler: Any = logs.make_handler(_settings)
        handler._gunicorn = True  # so that the next setup takes it away again
        self.error_log.handlers = [handler]

    def warning(self, msg: Any, *args: Any, **kwargs: Any) -> None:
        """Say what is wrong with a request that is none, but do not quote it: a header without a colon may be a key's."""
        if str(msg).startswith("Invalid request"):
            msg = re.split(r""": b?['"]""", msg, maxsplit=1)[0]
        super().warning(msg, *args, **kwargs)


def _fail(status: int, message: str) -> None:
    print(f"srb: {message}", file=sys.stderr, flush=True)
    sys.exit(status)


def _load() -> Settings:
    """Return the settings, after looking at what would fail later and less clearly."""
    try:
        settings = Settings.load()
        logs.make_handler(settings).close()
        _check_access(settings)
        if settings.engine_managed:
            check_model_file(settings)
    except ConfigError as error:
        _fail(EXIT_CONFIG, error.message)
    except ModelLoadFailed as error:
        _fail(EXIT_MODEL, error.message)
    if settings.port == 0 and not settings.runtime_dir:
        # The folder is named after the port, which is not known yet: a second such server would wait for this one.
        os.environ["SRB_RUNTIME_DIR"] = tempfile.mkdtemp(prefix="srb-")
        settings = Settings.load()
    return settings


def _check_access(settings: Settings) -> None:
    """Raise ConfigError for keys, files and certificates that are not there or not what they should be."""
    settings.load_api_keys()
    if settings.static_path and not Path(settings.static_path).expanduser().is_dir():
        raise ConfigError(f"static_path: there is no folder {settings.static_path}")
    if settings.ssl_cert_file:
        try:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(settings.ssl_cert_file, settings.ssl_key_file, password="")
        except OSError as error:
            raise ConfigError(f"ssl_cert_file and ssl_key_file: {error.strerror or error}") from None


_settings = _load()
_supervisor: subprocess.Popen[bytes] | None = None
_supervisor_died = False
_shared_folder = ""  # where the workers add up what they count, and leave what all of them have to know


def _address(host: str) -> str:
    """Return one of the settings' hosts in gunicorn's form."""
    if host.endswith(".sock"):
        return f"unix:{host}"
    return f"[{host.strip('[]')}]:{_settings.port}" if ":" in host else f"{host}:{_settings.port}"


bind = [_address(host) for host in _settings.hosts]
reuse_port = _settings.reuse_port
keyfile = _settings.ssl_key_file or None
certfile = _settings.ssl_cert_file or None
forwarder_headers = ""  # no client's header may change the path that is asked for
umask = os.umask(0o077)  # the one of this process, for a socket's file; gunicorn's own default is none at all
os.umask(umask)
workers = _settings.workers
worker_class = "srb.gunicorn_worker.Worker"
worker_connections = _settings.worker_connections
timeout = 60  # seconds without a sign of life after which a worker is replaced; streams do not count, they yield
graceful_timeout = _settings.graceful_timeout + _GRACE_SECONDS
keepalive = _settings.keepalive
proc_name = "srb"
preload_app = False  # neither CUDA nor ggml's threads survive a fork
logger_class = Logger
loglevel = {"info": "warning"}.get(_settings.log_level, _settings.log_level)  # gunicorn's info is about itself
accesslog = None
control_socket_disable = True  # it would lie in the home folder, shared by all servers of this user
if os.path.isdir("/dev/shm"):
    worker_tmp_dir = "/dev/shm"  # the heartbeat file: on a busy disk, touching it can block the worker


def on_starting(server: Any) -> None:
    """Fail at once where gunicorn would try for five seconds to bind a port that is taken."""
    if "LISTEN_FDS" in os.environ or "GUNICORN_FD" in os.environ:
        return  # the sockets are systemd's or, in an upgrade, the old server's
    for address in server.cfg.address:
        if isinstance(address, tuple):
            _check_address(*address[:2])


def _check_address(host: str, port: int) -> None:
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if _settings.reuse_port:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            probe.bind(address)
            probe.listen(1)
    except OSError as error:
        taken = "is already in use" if error.errno == errno.EADDRINUSE else f"cannot be used: {error.strerror}"
        _fail(_EXIT_PORT, f"port {port} {taken} (on {host}; choose another with --port or SRB_PORT)")


def pre_exec(server: Any) -> None:
    """Start the new server of an upgrade as this one was started.

    For `python -m gunicorn` gunicorn would run `python …/gunicorn/__main__.py`, and its folder hide Python's `http`.
    """
    if os.path.basename(sys.argv[0]) == "__main__.py":
        server.START_CTX["args"] = [sys.executable, "-m", "gunicorn", *sys.argv[1:]]


def when_ready(server: Any) -> None:
    """Start the supervisor, which shows the first screen when the model is loaded."""
    global _supervisor, _shared_folder
    _sweep()
    _shared_folder = os.environ["PROMETHEUS_MULTIPROC_DIR"] = _make_folder()
    server.handle_hup = partial(_reload, server)
    url = _public_url(server.LISTENERS)
    notify(f"STATUS=listening on {url}")
    if not _settings.engine_managed:
        print(first_screen(url, _settings), flush=True)
        return
    command = [sys.executable, "-m", "srb.engine.supervisor", "--parent", str(os.getpid()), "--url", url]
    # A session of its own: Ctrl-C reaches the arbiter alone, which ends the streams first and the engine last.
    _supervisor = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, env=_engine_environ())
    signal.signal(signal.SIGCHLD, lambda signum, frame: _on_child(server, signum, frame))


def _make_folder() -> str:
    """Make the shared folder, locked until this process and its workers have ended."""
    while True:
        folder = tempfile.mkdtemp(prefix=_FOLDER_PREFIX)
        with suppress(OSError):  # another server sweeps, and took it before it was locked
            if _lock(folder) is not None and os.path.isdir(folder):
                return folder


def _sweep() -> None:
    """Remove the shared folders of our servers that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_FOLDER_PREFIX}*"):
        with suppress(OSError):  # it is no folder, or not ours, or another server sweeps too
            if folder.lstat().st_uid == os.getuid() and (fd := _lock(str(folder))) is not None:
                shutil.rmtree(folder)
                os.close(fd)


def _lock(folder: str) -> int | None:
    """Lock a folder; return the descriptor that holds it, or None where another process does."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    return fd


def _reload(server: Any) -> None:
    """On SIGHUP start other workers, if they can start: where one cannot, gunicorn would end the whole server."""
    command = [sys.executable, "-m", "srb.web.check"]
    checked = subprocess.run(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    if checked.returncode:
        server.log.error("not reloaded: %s", checked.stderr.strip() or f"exit status {checked.returncode}")
        return
    server.reload()


def _engine_environ() -> dict[str, str]:
    """Return this process's environment for the supervisor and the engine.

    They have no use for a key but to know that there is one, and systemd hears of the whole server from us.
    """
    keys = {"SRB_API_KEY": "…"} if "SRB_API_KEY" in os.environ else {}
    return without_variables(os.environ) | keys


def _public_url(listeners: list[Any]) -> str:
    name = listeners[0].getsockname()
    if not isinstance(name, tuple):
        return f"http+unix://{name}"
    host, port = str(name[0]), name[1]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    scheme = "https" if _settings.ssl_cert_file else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def post_worker_init(worker: Any) -> None:
    """Connect to the engine now, and not when the first request arrives."""
    worker.wsgi.extensions["srb"].start()


def child_exit(server: Any, worker: Any) -> None:
    """Forget what a worker that has ended had open; what it had counted stays."""
    from prometheus_client.multiprocess import mark_process_dead  # it looks at the environment when it is imported

    from srb.web.limits import give_back_calls  # only an arbiter that has lost a worker needs it

    mark_process_dead(worker.pid)  # type: ignore[no-untyped-call]
    try:
        give_back_calls(Path(_shared_folder), server.WORKERS)
    except sqlite3.Error as error:
        server.log.error("what worker %s had open counts against its clients until another ends: %s", worker.pid, error)


def worker_int(worker: Any) -> None:
    """End the streams at once: on SIGINT and SIGQUIT gunicorn's workers leave a tenth of a second later."""
    worker.end_streams(grace=0)


def _on_child(server: Any, signum: int, frame: Any) -> None:
    """Let gunicorn see to its workers; without the supervisor nobody keeps the engine, so then end."""
    global _supervisor_died
    server.signal_chld(signum, frame)
    if _supervisor is not None and not _supervisor_died and _supervisor.poll() is not None:
        _supervisor_died = True
        server.signal(signal.SIGTERM, frame)


def on_exit(server: Any) -> None:
    """Stop the supervisor, and with it the engine, after the workers have ended."""
    if _shared_folder:
        shutil.rmtree(_shared_folder, ignore_errors=True)
    if _supervisor is None:
        return
    if _supervisor_died:
        _fail(1, "the engine's supervisor died; the server was stopped")
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _supervisor.terminate()
    try:
        _supervisor.wait(_SUPERVISOR_SECONDS)
    except subprocess.TimeoutExpired:
        _supervisor.kill()
        _supervisor.wait()
