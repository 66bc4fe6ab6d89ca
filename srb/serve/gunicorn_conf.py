"""gunicorn's configuration, made from Settings, and the hooks that start and stop the engine's supervisor.

The checkout's gunicorn.conf.py imports these names; an installed package is served with
`-c python:srb.serve.gunicorn_conf`. Errors in the settings, the model's file and the port are reported here, in one line,
before anything is started.
"""

import contextlib
import gc
import importlib.util
import os
import re
import resource
import signal
import sqlite3
import ssl
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from gunicorn.glogging import Logger as GunicornLogger

from srb import logs
from srb.cluster.doors import check_doors
from srb.config.held import Held
from srb.config.settings import ENV_PREFIX, SERVER_ID_VARIABLE, TEXT_FILES, Settings
from srb.config.texts import read_text_now
from srb.errors import ConfigError, ModelLoadFailed
from srb.exit_codes import EXIT_CONFIG, EXIT_MACHINE, EXIT_MODEL, EXIT_WORKER
from srb.extensions import all_of_others, forget
from srb.fetch.chosen_model import choose
from srb.files.gguf import check_adapter_files, check_model_file
from srb.host.listening import CannotListen, try_to_listen, url_of
from srb.host.systemd import notify, without_variables
from srb.models.listed import default_model, list_models
from srb.python import module_command
from srb.serve.engine_environ import Address, engine_environ
from srb.serve.reload import outcome_folder, remove_outcome, write_outcome
from srb.serve.shared_folder import make_shared_folder, remove_shared_folder, sweep_shared_folders
from srb.serve.workers import Workers
from srb.welcome import first_screen

_SUPERVISOR_SECONDS = 8.0  # from SIGTERM to SIGKILL; the supervisor gives the engine 5 and looks each second
_LEAST_SECONDS = 3.0  # of a supervisor that is replaced; the death of a younger one stops the server
_GRACE_SECONDS = 3  # gunicorn's workers check only once a second whether they should end, and whether they can
_RESERVED_DESCRIPTORS = 200  # of a worker beside its connections: files, and 30 chats that fetch six media each
_SHOWN_MODELS = 8  # names in the line that systemd shows; as many as a wide terminal has room for


class Logger(GunicornLogger):  # type: ignore[misc]
    """gunicorn's log lines, in the format and the place of all others, and without text that a client sent."""

    def setup(self, cfg: Any) -> None:
        super().setup(cfg)
        handler: Any = logs.make_handler(_settings)
        handler._gunicorn = True  # so that the next setup removes it
        self.error_log.handlers = [handler]

    def warning(self, msg: Any, *args: Any, **kwargs: Any) -> None:
        """Log malformed requests without quoting them: a broken header line may contain an API key."""
        if str(msg).startswith("Invalid request"):
            msg = re.split(r""": b?['"]""", msg, maxsplit=1)[0]
        super().warning(msg, *args, **kwargs)


def _fail(status: int, message: str) -> NoReturn:
    print(f"srb: {message}", file=sys.stderr, flush=True)
    sys.exit(status)


def _load() -> Settings:
    """Return the settings, after checks of whatever would fail later and less clearly."""
    own_templates = False
    try:
        settings = _with_model(Settings.load())
        logs.make_handler(settings).close()
        _check_access(settings)
        if settings.cluster:
            _check_ray()
        elif settings.replicas:
            check_doors(settings)
        elif settings.engine_managed:
            models = list_models(settings) if settings.models else {}
            first = models[default_model(settings, models)].settings(settings) if models else settings
            check_model_file(first)
            check_adapter_files(first)
            _model_names[:] = models
            own_templates = any({"chat_template", "chat_template_file"} & each.own.keys() for each in models.values())
        if (
            own_templates
            or settings.traces
            or settings.chat_template
            or settings.chat_template_file
            or settings.system_prompt_file
            or all_of_others()
        ):
            _check_workers()
    except ConfigError as error:
        _fail(EXIT_CONFIG, error.message)
    except ModelLoadFailed as error:
        _fail(EXIT_MODEL, error.message)
    return settings


def _with_model(settings: Settings) -> Settings:
    """Return the settings with a model that is on this machine, which all processes of this server get in their environment.

    Nothing is downloaded here: a service would do so at each start, and systemd would end it while it does.
    """
    chosen = choose(settings, may_fetch=False)
    if not chosen:
        return settings
    os.environ |= {ENV_PREFIX + name.upper(): value for name, value in chosen.items()}
    return Settings.load()


def _check_ray() -> None:
    """Raise ConfigError if Ray is not installed; this process does not import it."""
    if importlib.util.find_spec("ray") is None:
        raise ConfigError("cluster needs Ray, which is not installed: pip install 'llama-srb[cluster]'")


def _check_workers() -> None:
    """Raise ConfigError for what would keep a worker from starting; this process imports nothing of the web."""
    checked = _run_check()
    if checked.returncode:
        message = checked.stderr.strip() or f"a worker cannot start (exit status {checked.returncode})"
        raise ConfigError(message.removeprefix("srb: "))


def _run_check() -> subprocess.CompletedProcess[str]:
    command = module_command("srb.web.check_config")
    return subprocess.run(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)


def _check_access(settings: Settings) -> None:
    """Raise ConfigError for keys, a static folder or certificates that are missing or unusable."""
    settings.load_api_keys()
    if settings.static_path and not Path(settings.static_path).is_dir():
        raise ConfigError(f"static_path: {settings.static_path} is not a folder")
    if settings.ssl_cert_file:
        try:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(settings.ssl_cert_file, settings.ssl_key_file, password="")
        except OSError as error:
            raise ConfigError(f"ssl_cert_file and ssl_key_file: {error.strerror or error}") from None


def _raise_descriptor_limit() -> int:
    """Let this process and those that it starts have as many descriptors as they may; return that number.

    The soft limit is 1024 by default, so that programs with select() fail early; nothing here waits for many by select().
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):  # macOS says "unlimited" and means less
        return soft
    return hard


def connections_within(descriptors: int, wanted: int) -> int:
    """Return how many of the wanted connections a worker serves that may have so many descriptors; at least half of them."""
    if descriptors == resource.RLIM_INFINITY:
        return wanted
    return max(1, min(wanted, max(descriptors - _RESERVED_DESCRIPTORS, descriptors // 2)))


_model_names: list[str] = []  # of several models
_settings = _load()
_supervisor: subprocess.Popen[bytes] | None = None
_supervisor_began = 0.0
_supervisor_died = False
_workers: Workers | None = None
_outcome_folder = Path()
_shared_folder = ""  # the workers' shared counts and system prompt, see shared_folder.py


def _address(host: str) -> str:
    """Return one of the settings' hosts in gunicorn's form."""
    if host.endswith(".sock"):
        return f"unix:{host}"
    return f"[{host.strip('[]')}]:{_settings.port}" if ":" in host else f"{host}:{_settings.port}"


bind = [_address(host) for host in _settings.hosts]
reuse_port = _settings.reuse_port
keyfile = _settings.ssl_key_file or None
certfile = _settings.ssl_cert_file or None
forwarder_headers = ""  # no client's header may change the requested path
umask = os.umask(0o077)  # this process's umask, for a socket's file; gunicorn's default is 0
os.umask(umask)
workers = _settings.workers
worker_class = "srb.serve.gunicorn_worker.Worker"
worker_connections = connections_within(_raise_descriptor_limit(), _settings.worker_connections)
timeout = 60  # seconds after which a worker that never yields is replaced; its start takes 5 where cores are short
graceful_timeout = _settings.graceful_timeout + _GRACE_SECONDS
keepalive = _settings.keepalive
proc_name = "srb"
preload_app = False  # neither CUDA nor ggml's threads survive a fork
logger_class = Logger
loglevel = {"info": "warning"}.get(_settings.log_level, _settings.log_level)  # gunicorn's info lines concern itself
accesslog = None
control_socket_disable = True  # gunicorn would put it in the home folder, shared by all servers of this user
if os.path.isdir("/dev/shm"):
    worker_tmp_dir = "/dev/shm"  # the heartbeat file: on a busy disk, touching it can block the worker


def on_starting(server: Any) -> None:
    """Fail at once if the port is in use, where gunicorn would retry for five seconds."""
    if "LISTEN_FDS" in os.environ or "GUNICORN_FD" in os.environ:
        return  # the sockets are systemd's or, in an upgrade, the old server's
    for address in server.cfg.address:
        if isinstance(address, tuple):
            _check_address(*address[:2])


def _check_address(host: str, port: int) -> None:
    try:
        try_to_listen(host, port, reuse_port=_settings.reuse_port)
    except CannotListen as error:
        # A started-again server would find the same port; an address that the machine lacks may come with its network.
        _fail(EXIT_MACHINE if error.may_change else EXIT_CONFIG, str(error))


def pre_exec(server: Any) -> None:
    """Start the new server of an upgrade (SIGUSR2) with this server's command.

    It keeps this server's id, since both servers share the engine until this one ends.
    For `python -m gunicorn` gunicorn would run `python …/gunicorn/__main__.py`, whose folder would hide Python's `http`.
    """
    if SERVER_ID_VARIABLE in os.environ:
        server.cfg.env_orig[SERVER_ID_VARIABLE] = os.environ[SERVER_ID_VARIABLE]
    server.START_CTX["args"] = [sys.executable, *sys.orig_argv[1:]]


def when_ready(server: Any) -> None:
    """Start the supervisor, which prints the first screen when the model is loaded."""
    global _shared_folder, _workers, _outcome_folder
    if worker_connections < _settings.worker_connections:
        server.log.warning(
            "worker_connections is %d in place of %d, since a process may have only %d descriptors (ulimit -Hn)",
            worker_connections, _settings.worker_connections, resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        )  # fmt: skip
    addresses = _addresses(server)
    url = _public_url(addresses[0])
    notify(f"STATUS={_status(url)}")
    if _settings.engine_managed:
        os.environ |= engine_environ(_settings, addresses)
    else:
        os.environ.pop(SERVER_ID_VARIABLE, None)
    try:
        _outcome_folder = outcome_folder(Settings.load())
        tell = partial(_tell_reload, server, _outcome_folder)
        _workers = Workers(server, _held_now, partial(_checked_for_reload, server), tell)
    except ConfigError as error:
        _fail(EXIT_CONFIG, error.message)
    gc.freeze()  # no collection visits what is there now, neither here nor in the workers, with which its pages stay shared
    sweep_shared_folders()
    _shared_folder = os.environ["PROMETHEUS_MULTIPROC_DIR"] = make_shared_folder()
    if not _settings.engine_managed:
        print(first_screen(url, _settings), flush=True)
        return
    _start_supervisor(url)
    signal.signal(signal.SIGCHLD, lambda signum, frame: _on_child(server, signum, frame))


def _start_supervisor(url: str = "") -> None:
    """Start the supervisor; with `url` it prints the first screen."""
    global _supervisor, _supervisor_began
    module = "srb.models.supervisor" if _settings.models else "srb.process.supervisor"
    command = module_command(module, "--parent", str(os.getpid()), "--url", url)
    # In a session of its own: Ctrl-C reaches only the arbiter, which ends the streams first and the engine last.
    _supervisor = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, env=_engine_environ())
    _supervisor_began = time.monotonic()


def _status(url: str) -> str:
    """Return the line that systemd shows: the address and, with several models, their names."""
    if not _model_names:
        return f"listening on {url}"
    shown, more = _model_names[:_SHOWN_MODELS], len(_model_names) - _SHOWN_MODELS
    return f"listening on {url}; models: {', '.join(shown)}" + (f" and {more} more" if more > 0 else "")


def _held_now() -> Held:
    """Return the settings of now, with the texts of the files that they name. Raise ConfigError."""
    settings = Settings.load()
    texts = {path: read_text_now(name, path) for name in TEXT_FILES if (path := getattr(settings, name))}
    for listed in list_models(settings).values() if settings.models else ():
        if path := listed.own.get("chat_template_file"):
            texts[path] = read_text_now("chat_template_file", path)
    return Held(settings, texts)


def _checked_for_reload(server: Any) -> Held:
    """Return the same after a check whether a worker can start with them. Raise ConfigError."""
    forget()  # packages may have come or gone, and workers inherit what is found here
    held = _held_now()
    _check_workers()
    if bool(held.settings.models) != bool(_settings.models):  # workers would look for engines that this server lacks
        raise ConfigError(f"models was {'added' if held.settings.models else 'removed'}; restart the server")
    if held.settings.models != _settings.models:
        server.log.warning("the setting models has changed: the engines keep the old list until the server restarts")
    return held


def _tell_reload(server: Any, folder: Path, began: float, error: str) -> None:
    try:
        write_outcome(folder, began, error)
    except OSError as fault:  # whoever waits for it waits in vain; an exception would end the server
        server.log.warning("nobody is told of the reload's outcome: %s", fault)


def _engine_environ() -> dict[str, str]:
    """Return the environment of the supervisor and the engine: without the API key and systemd's variables.

    The first screen needs to know only whether there is a key, and this process notifies systemd for the whole server.
    """
    keys = {"SRB_API_KEY": "…"} if os.environ.get("SRB_API_KEY") else {}  # an empty value is no key, see first_screen
    return without_variables(os.environ) | keys


def _addresses(server: Any) -> list[Address]:
    """Return the addresses that the server listens on; settings lack them with port 0, `-b` or systemd's sockets."""
    names = [listener.getsockname() for listener in server.LISTENERS]
    if not names:  # with reuse_port each worker opens its own
        names = server.cfg.address
    return [tuple(name[:2]) if isinstance(name, tuple) else os.fsdecode(name) for name in names]


def _public_url(address: Address) -> str:
    if not isinstance(address, tuple):
        return f"http+unix://{address}"
    host, port = address
    return url_of(host, port, is_secure=bool(_settings.ssl_cert_file))


def post_fork(server: Any, worker: Any) -> None:
    """Let a worker that cannot start exit with a status of its own; the arbiter decides what follows."""
    server.WORKER_BOOT_ERROR = server.APP_LOAD_ERROR = EXIT_WORKER


def post_worker_init(worker: Any) -> None:
    """Connect to the engine now instead of at the first request."""
    worker.wsgi.extensions["srb"].start()


def worker_exit(server: Any, worker: Any) -> None:
    """Leave the stories' file closed: one file without a log beside it, which can be copied. Send the last spans."""
    if worker.wsgi is not None:
        worker.wsgi.extensions["srb"].stories.close()
        if worker.wsgi.spans is not None:
            worker.wsgi.spans.close()


def child_exit(server: Any, worker: Any) -> None:
    """Stop counting the open calls of an ended worker; its counters remain. At the server's end nobody asks for either."""
    if _workers is not None:
        _workers.ended(worker)
        if _workers.is_stopping:
            return
    from prometheus_client.multiprocess import mark_process_dead  # reads the environment when it is imported

    from srb.web.limits import give_back_calls  # needed only after a worker's end

    mark_process_dead(worker.pid)  # type: ignore[no-untyped-call]
    try:
        give_back_calls(Path(_shared_folder), server.WORKERS)
    except sqlite3.Error as error:
        server.log.error("open calls of ended worker %s still count for its clients: %s", worker.pid, error)


def worker_int(worker: Any) -> None:
    """End the streams: on SIGINT and SIGQUIT gunicorn's workers exit a tenth of a second after this."""
    worker.end_streams_now()


def _on_child(server: Any, signum: int, frame: Any) -> None:
    """Let gunicorn handle its workers, and stop the server if the supervisor died: nothing else restarts the engine.

    A killed supervisor of a bridge, which goes on meanwhile, is replaced, unless it was killed soon after its start.
    """
    global _supervisor, _supervisor_died
    server.signal_chld(signum, frame)
    if _supervisor is None or _supervisor_died or _supervisor.poll() is None:
        return
    if _settings.has_replicas and _supervisor.returncode < 0 and time.monotonic() > _supervisor_began + _LEAST_SECONDS:
        dead, _supervisor = _supervisor, None  # a child that ends meanwhile calls this again
        try:
            _start_supervisor()  # no lines of the log in a signal handler: its bridge tells
            return
        except OSError:  # no memory, no process: then the server ends in order
            _supervisor = dead
    _supervisor_died = True
    server.signal(signal.SIGTERM, frame)


def on_exit(server: Any) -> None:
    """Stop the supervisor, and with it the engine, after the workers have ended."""
    if _shared_folder:
        remove_shared_folder(_shared_folder)
        with contextlib.suppress(OSError):
            remove_outcome(_outcome_folder)
    if _supervisor is None:
        return
    if _supervisor_died and _supervisor.returncode in (EXIT_CONFIG, EXIT_MACHINE):
        sys.exit(_supervisor.returncode)  # it has said why
    if _supervisor_died:
        _fail(1, "the engine's supervisor died; the server was stopped")
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _supervisor.terminate()
    try:
        _supervisor.wait(_SUPERVISOR_SECONDS + _settings.state_seconds)
    except subprocess.TimeoutExpired:
        _supervisor.kill()
        _supervisor.wait()
