"""`srb doctor` and `srb bench` as commands: their output, their exit status, and one line for whatever is wrong."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from pathlib import Path

import orjson
import pytest

from srb.bench.client import BenchFailed
from srb.bench.server import server
from srb.config.named_models import BUNDLED_MODEL
from tests.processes import DEADLINE, PYTHON, ROOT, clean_environ, command_line, descendants, wait_for
from tests.servers import Server, free_port

pytestmark = pytest.mark.e2e


def srb(*arguments: object, **settings: object) -> subprocess.CompletedProcess[str]:
    words = [PYTHON, "-m", "srb.cli.main", *map(str, arguments)]
    own = {"model": "storyteller", "port": free_port()}  # whatever models and servers this user has
    environ = clean_environ(**{**own, **settings})
    return subprocess.run(
        words, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=2 * DEADLINE, check=False
    )


def test_the_doctor_reports_on_the_bundled_model() -> None:
    done = srb("doctor")
    assert (done.returncode, done.stderr) == (0, "")
    for title in ("This machine", "llama.cpp", "Model ", "Memory", "KV store, for each 1,000 cells"):
        assert f"\n{title}" in f"\n{done.stdout}"
    [row] = [line for line in done.stdout.splitlines() if line.startswith("  q8_0")]
    assert row.split()[1:3] == ["1.04", "MiB"]  # 4 layers of 256 keys and 256 values, 34 bytes for 32 of them


def test_the_doctor_takes_the_options_of_the_server_and_prints_an_object() -> None:
    done = srb("doctor", "--json", "-c", 4096, "--cache-type-k", "q8_0", "-t", 1)
    assert (done.returncode, done.stderr) == (0, "")
    said = orjson.loads(done.stdout)
    assert (said["model"]["n_ctx"], said["model"]["threads"]) == (4096, 1)
    assert said["model"]["bytes_per_cell"] == 1024 + 544
    assert said["machine"]["usable"] >= 1


def test_settings_with_which_no_server_starts_are_a_problem() -> None:
    done = srb("doctor", "--json", cache_type_v="q8_0", flash_attn="off")
    assert done.returncode == 1
    problem = orjson.loads(done.stdout)["findings"][0]
    assert (problem["level"], problem["change"]) == ("problem", "flash_attn = auto, or cache_type_v = f16")


def test_a_port_of_another_program_and_a_folder_for_nobody_are_problems_and_an_srb_server_is_none(
    tmp_path: Path,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = srb("doctor", "--json", "--port", port, runtime_dir="/proc/x")
    problems = [each["text"] for each in orjson.loads(done.stdout)["findings"] if each["level"] == "problem"]
    assert done.returncode == 1
    assert [text.partition(" (")[0] for text in problems] == [
        f"port {port} is already in use", "runtime_dir: cannot create /proc/x: No such file or directory"
    ]  # fmt: skip
    with Server(tmp_path, api_prefix="/llm", api_key="secret").start() as running:
        beside = srb("doctor", "--json", "--port", running.port, api_prefix="/llm")
    assert beside.returncode == 0
    assert "an SRB server answers there" in beside.stdout


def test_a_user_who_may_not_write_is_told_so(tmp_path: Path) -> None:
    """Root leaves its powers behind; as another user the test's own folder is made read-only."""
    for name in ("states", "stories", "logs"):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(0o500)
    (tmp_path / "logs" / "srb.log").write_text("")
    (tmp_path / "logs" / "srb.log").chmod(0o400)
    environ = clean_environ(
        model="storyteller", port=free_port(), state_dir=tmp_path / "states", stories=tmp_path / "stories" / "x.sqlite3",
        log_file=tmp_path / "logs" / "srb.log", runtime_dir=tmp_path / "run",
    )  # fmt: skip
    powerless = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []
    command = [*powerless, PYTHON, "-m", "srb.cli.main", "doctor", "--json"]
    done = subprocess.run(
        command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=2 * DEADLINE, check=False
    )
    problems = [each["text"] for each in orjson.loads(done.stdout)["findings"] if each["level"] == "problem"]
    assert [text.partition(":")[0] for text in problems] == ["state_dir", "stories", "log_file"]
    assert all(": Permission denied (" in text for text in problems)
    assert "srb.log belongs to root, mode 400; this is root" in problems[2] or os.geteuid() != 0
    assert done.returncode == 1


@pytest.mark.parametrize("command", ["doctor", "bench"])
def test_a_wrong_file_is_one_line(command: str, tmp_path: Path) -> None:
    text, junk = tmp_path / "text.gguf", tmp_path / "junk.gguf"
    text.write_text("once upon a time")
    junk.write_bytes(b"GGUF\3" + bytes(19))  # a header that says nothing
    for path, words in (
        (tmp_path / "nowhere.gguf", "No such file or directory"),
        (text, "is not a GGUF file"),
        (junk, "cannot be loaded"),
    ):
        done = srb(command, "-m", path)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith("srb: ")
        assert done.stderr.count("\n") == 1
        assert words in done.stderr


@pytest.mark.parametrize("arguments", [("doctor", "--nothing"), ("bench", "--branches", "0"), ("bench", "--url")])
def test_a_wrong_argument_is_one_line_and_exit_status_2(arguments: tuple[str, ...]) -> None:
    done = srb(*arguments)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


def test_the_bench_starts_a_server_of_its_own_whatever_the_users_settings_ask_of_clients() -> None:
    done = srb("bench", "--quick", "--branches", "2", "--json", "-t", 1, api_key="secret", api_prefix="/llm", port=1)
    assert (done.returncode, done.stderr) == (0, "")
    said = orjson.loads(done.stdout)
    assert said["model"] == "storyteller"
    assert [row["n"] for row in said["rows"]] == [1, 2]
    assert all(
        row["tokens_per_second"] > 0 and 0 < row["first_token_cold"] < row["seconds_cold"] for row in said["rows"]
    )


def test_the_bench_measures_a_running_server_with_its_key_and_prefix(tmp_path: Path) -> None:
    with Server(tmp_path, api_key="secret", api_prefix="/llm", n=4, max_n=4).start() as running:
        refused = srb("bench", "--url", f"{running.url}/llm")
        done = srb("bench", "--quick", "--url", f"{running.url}/llm", api_key="secret")
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
    assert "401" in refused.stderr
    assert (done.returncode, done.stderr) == (0, "")
    rows = [line.split() for line in done.stdout.splitlines()[-1:]]
    assert [row[0] for row in rows] == ["1"]  # max_n is less than 8


def test_a_bench_that_fails_tells_what_its_server_has_logged() -> None:
    before = set(descendants(os.getpid()))

    def engine() -> int | None:
        found = [pid for pid in descendants(os.getpid()) if "srb.engine.process " in command_line(pid)]
        return next((pid for pid in found if pid not in before), None)

    def fail() -> None:
        with server(clean_environ(model="fake:")):
            before.add(killed := wait_for(engine, "there is an engine"))
            os.kill(killed, signal.SIGKILL)
            wait_for(engine, "there is another one, of which the log has told why")
            raise BenchFailed("the answer")

    with pytest.raises(BenchFailed, match=r"(?s)the answer.*the engine exited \(SIGKILL\)"):
        fail()


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ('raise RuntimeError("libgomp.so.1: cannot open")', "llama.cpp cannot be loaded: libgomp.so.1: cannot open"),
        ("import os; os._exit(9)", "(exit status 9)"),
        ("import os; os.kill(os.getpid(), 4)", "(SIGILL: llama.cpp was built for another processor"),
    ],
)
def test_a_bench_whose_engine_does_not_start_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, said: str
) -> None:
    (tmp_path / "llama_cpp.py").write_text(fault)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")
    done = srb("bench", "--quick", model=BUNDLED_MODEL)
    assert done.returncode == 1
    *_, last = done.stderr.splitlines()  # of the first engine, or of three that have ended by then
    assert last.startswith("srb: ")
    assert said in last


def test_nothing_listens_is_one_line() -> None:
    done = srb("bench", "--url", "http://127.0.0.1:1")
    assert (done.returncode, done.stderr) == (1, "srb: http://127.0.0.1:1: Connection refused\n")
