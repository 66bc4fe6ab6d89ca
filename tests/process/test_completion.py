"""What the shells complete of the command's words, and how its page of the manual is shown."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from srb.cli.options import HELP, table
from tests.needs import need
from tests.processes import DEADLINE
from tools import command_line

ASK_BASH = r"""
source "$1"
shift
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
$(complete -p srb | sed 's/.*-F \([^ ]*\).*/\1/') srb "${!#}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\n' "${COMPREPLY[@]}"
"""


def in_bash(*words: str, cwd: Path | None = None) -> set[str]:
    """Return how bash completes the last of the words."""
    command = ["bash", "-c", ASK_BASH, "bash", str(command_line.BASH), "srb", *words]
    return set(subprocess.run(command, capture_output=True, text=True, check=True, cwd=cwd).stdout.split())


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        (["serv"], {"serve", "service"}),
        (["rpc"], {"rpc-node"}),
        (["serve", "--n-ct"], {"--n-ctx"}),
        (["serve", "--log-format", ""], {"text", "json"}),
        (["doctor", "--json", "--ctx-si"], {"--ctx-size"}),
        (["bench", "--qu"], {"--quick", "--queue-timeout"}),
        (["stories", "ex"], {"export"}),
        (["stories", "share", "--w"], {"--write"}),
        (["models", "fetch", "sm"], {"smollm2"}),
        (["config", "srb-web"], set()),
        (["config", "systemd/srb-web.so"], {"systemd/srb-web.socket"}),
        (["cluster", "de"], {"deploy"}),
        (["nothing", "--n"], set()),
    ],
)
def test_bash_completes(words: list[str], completed: set[str]) -> None:
    assert in_bash(*words) == completed


def test_bash_completes_paths_where_a_file_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "tale.gguf").touch()
    assert in_bash("serve", "--model", "ta", cwd=tmp_path) == {"tale.gguf"}
    assert in_bash("stories", "--file", "ta", cwd=tmp_path) == {"tale.gguf"}
    assert in_bash("serve", "--port", "ta", cwd=tmp_path) == set()


ZSHRC = """
fpath=({folder} $fpath)
autoload -Uz compinit
compinit -u -D
srb() {{ print "ran: $*." }}
PS1="ready"
"""


@pytest.mark.parametrize(
    ("typed", "run"),
    [
        ("rpc", "rpc-node"),
        ("serve --log-form", "serve --log-format"),
        ("serve --log-format js", "serve --log-format json"),
        ("doctor --ctx-si", "doctor --ctx-size"),
        ("stories sh", "stories share"),
    ],
)
def test_zsh_completes(tmp_path: Path, typed: str, run: str) -> None:
    need(shutil.which("zsh"), "zsh")
    (tmp_path / ".zshrc").write_text(ZSHRC.format(folder=command_line.ZSH.parent))
    pid, terminal = pty.fork()
    if pid == 0:
        environ = {"HOME": str(tmp_path), "TERM": "dumb", "PATH": os.environ["PATH"]}
        os.execvpe("zsh", ["zsh", "-d", "-i"], environ)  # -d: without the files of /etc
    try:
        read_until(terminal, "ready")
        os.write(terminal, f"srb {typed}\t\n".encode())
        assert f"ran: {run}." in read_until(terminal, ".\r\n")
    finally:
        os.close(terminal)  # its hang-up ends the shell
        os.waitpid(pid, 0)


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("rpc", {"rpc-node"}),
        ("serve --n-ct", {"--n-ctx"}),
        ("serve --log-format js", {"json"}),
        ("doctor --ctx-si", {"--ctx-size"}),
        ("stories re", {"replay", "restore"}),
    ],
)
def test_fish_completes(tmp_path: Path, typed: str, completed: set[str]) -> None:
    need(shutil.which("fish"), "fish")
    command = ["fish", "--no-config", "-c", "source $argv[1]; complete -C $argv[2]", str(command_line.FISH)]
    environ = {**os.environ, "HOME": str(tmp_path)}
    done = subprocess.run([*command, f"srb {typed}"], env=environ, capture_output=True, text=True, check=True)
    assert {line.split("\t")[0] for line in done.stdout.splitlines()} == completed


def read_until(terminal: int, wanted: str) -> str:
    """Return what a program has written to its terminal, once it is `wanted`."""
    written, deadline = "", time.monotonic() + DEADLINE
    while wanted not in written:
        ready, _, _ = select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, f"no {wanted!r} in {written!r}"
        written += os.read(terminal, 65536).decode(errors="replace")
    return written


def test_the_manual_is_shown_without_a_warning() -> None:
    need(shutil.which("groff"), "groff, of Debian's package groff-base")
    command = ["groff", "-Kutf8", "-Tutf8", "-man", "-ww", "-P-c", str(command_line.MAN)]
    made = subprocess.run(command, capture_output=True, text=True, check=True)
    assert made.stderr == ""
    shown = " ".join(made.stdout.split())
    assert "srb - one prompt, many continuations" in shown
    assert "--version" in shown


def test_the_manual_names_each_option_of_the_help() -> None:
    named = command_line.MAN.read_text().replace("\\", "")
    found = {name for name, flags in table().items() if flags[0].sets and flags[0].value == "true"}
    assert [name for name in sorted(found - {*HELP.names.split()}) if f"{name}fR" not in named] == []
