"""The command `srb service`: a server of one's own that starts at login, by systemd on Linux and launchd on macOS."""

import os
import platform
import plistlib
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from srb.cli.config import FOLDER
from srb.exit_codes import EXIT_FAILED, OneLineParser, fail

LABEL = "org.llama-srb"  # of launchd
_UNIT = "srb.service"
_MARK = "SRB for one person"  # in the first lines of a file that this command writes, and of no other
# launchd reads no file of variables, so a shell does: the file's path is $0, and the command $1.
_WITH_VARIABLES = 'set -a; [ ! -r "$0" ] || . "$0"; exec "$1" serve'
_THROTTLE_SECONDS = 60  # between two starts: launchd knows no exit status after which it should not try again


@dataclass(frozen=True)
class Service:
    """How this system keeps a service of one person: its file, and the commands with the words that go before them."""

    path: Path
    text: bytes
    start: tuple[tuple[str, ...], ...]
    stop: tuple[tuple[str, ...], ...]
    status: tuple[str, ...]
    log: str


def main(arguments: Sequence[str]) -> NoReturn:
    """Run one of the commands; the exit status is 1 if it failed, and that of the system's own command for `status`."""
    asked = parser().parse_args(arguments)
    if os.geteuid() == 0:
        fail("a service of root is one of the machine, which docs/deploy.md sets up; this one is for a person")
    service = _service()
    try:
        if asked.command == "install":
            _install(service)
        elif asked.command == "uninstall":
            _uninstall(service)
        elif not service.path.exists():
            fail("no service is installed; `srb service install` does so", EXIT_FAILED)
        else:
            sys.exit(subprocess.run(service.status, check=False).returncode)
    except OSError as error:
        fail(f"{error.filename}: {error.strerror}", EXIT_FAILED)
    sys.exit(0)


def parser() -> OneLineParser:
    found = OneLineParser(prog="srb service", description=__doc__, allow_abbrev=False)
    commands = found.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, text in (
        ("install", "start the server now and at each login, with the settings of ~/.config/srb/environment"),
        ("uninstall", "stop it and start it no more; stories and settings stay"),
        ("status", "show whether it runs, and the end of its log"),
    ):
        commands.add_parser(name, help=text, description=text, allow_abbrev=False)
    return found


def _install(service: Service) -> None:
    if service.path.exists():
        _check_ours(service.path)
    if not _srb().exists():
        fail(f"{_srb()} is missing: the service starts the command that pip has installed", EXIT_FAILED)
    service.path.parent.mkdir(parents=True, exist_ok=True)
    service.path.write_bytes(service.text)
    for command in service.start:
        _run(command, f"{service.path} is written, and the service does not start")
    print(f"SRB runs, and starts at each login: {service.path}")
    print(f"settings  {_variables()}, one a line: SRB_MODEL=/path/to/model.gguf; then `srb service install` again")
    print(f"log       {service.log}")


def _uninstall(service: Service) -> None:
    if not service.path.exists():
        fail("no service is installed", EXIT_FAILED)
    _check_ours(service.path)
    _run(service.stop[0], "the service does not stop")
    service.path.unlink()
    for command in service.stop[1:]:
        _run(command, f"{service.path} is removed")
    print(f"{service.path} is removed; stories and settings are where they were")


def _check_ours(path: Path) -> None:
    if _MARK.encode() not in path.read_bytes():
        fail(f"{path} is not a file of this command; move it away first", EXIT_FAILED)


def _run(command: Sequence[str], otherwise: str) -> None:
    """Run a command of the system; if it fails, end with what it says."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        fail(f"{otherwise}: this system has no {command[0]}", EXIT_FAILED)
    if done.returncode:
        said = " ".join((done.stderr or done.stdout).split()) or f"exit status {done.returncode}"
        fail(f"{otherwise}: {shlex.join(command)}: {said}", EXIT_FAILED)


def _service() -> Service:
    return _of_launchd() if platform.system() == "Darwin" else _of_systemd()


def _config() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")


def _variables() -> Path:
    return _config() / "srb" / "environment"


def _srb() -> Path:
    """Return the command of this installation, by its path: a service has another PATH."""
    return Path(sys.executable).with_name("srb")


def _of_systemd() -> Service:
    text = (FOLDER / "systemd-user" / "srb-user.service").read_text()
    # Of variables systemd replaces none in a program's path, and of its own specifiers all.
    program, python = (str(path).replace("%", "%%") for path in (_srb(), Path(sys.executable)))
    commands = {"Start": f'"{program}" serve', "Reload": f'"{python}" -P -m srb.serve.reload $MAINPID'}
    text = re.sub(r"(?m)^Exec(Start|Reload)=.*$", lambda found: f"Exec{found[1]}={commands[found[1]]}", text)
    systemctl = ("systemctl", "--user")
    return Service(
        path=_config() / "systemd" / "user" / _UNIT,
        text=text.encode(),
        start=((*systemctl, "daemon-reload"), (*systemctl, "enable", _UNIT), (*systemctl, "restart", _UNIT)),
        stop=((*systemctl, "disable", "--now", _UNIT), (*systemctl, "daemon-reload")),
        status=(*systemctl, "status", "--no-pager", _UNIT),
        log="journalctl --user -u srb -f",
    )


def _of_launchd() -> Service:
    path, log = (Path.home() / "Library" / name for name in (f"LaunchAgents/{LABEL}.plist", "Logs/srb.log"))
    agent = {
        "Label": LABEL,
        "ServiceDescription": _MARK,
        "ProgramArguments": ["/bin/sh", "-c", _WITH_VARIABLES, str(_variables()), str(_srb())],
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": _THROTTLE_SECONDS,
        "ExitTimeOut": 80,  # as TimeoutStopSec of systemd's unit
        "Umask": 0o077,
        "StandardOutPath": str(log),
        "StandardErrorPath": str(log),
    }
    domain = f"gui/{os.getuid()}"
    again = (
        'launchctl bootout "$0/$1" 2>/dev/null; exec launchctl bootstrap "$0" "$2"'  # launchd keeps what it has read
    )
    return Service(
        path=path,
        text=plistlib.dumps(agent),
        start=(("/bin/sh", "-c", again, domain, LABEL, str(path)),),
        stop=(("launchctl", "bootout", f"{domain}/{LABEL}"),),
        status=("launchctl", "print", f"{domain}/{LABEL}"),
        log=f"tail -F {shlex.quote(str(log))}",
    )
