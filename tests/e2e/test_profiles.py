"""Profiles of real servers, started by `gunicorn -c gunicorn.conf.py wsgi:app`."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.processes import DEADLINE, ROOT, clean_environ, wait_for
from tests.servers import GUNICORN, MakeServer

pytestmark = pytest.mark.e2e


def gunicorn(*options: str, **settings: object) -> subprocess.CompletedProcess[str]:
    """Run gunicorn until it ends by itself."""
    command = [*GUNICORN[:-1], *options, GUNICORN[-1]]
    environ = clean_environ(model="fake:", **settings)
    return subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, cwd=ROOT, env=environ, check=False)


def test_gunicorn_obeys_the_profile_of_its_file_and_what_is_given_by_hand(
    make_server: MakeServer, tmp_path: Path
) -> None:
    (tmp_path / "srb.toml").write_text('profile = "llama-server"\nlog_format = "text"\n')
    server = make_server(config=tmp_path / "srb.toml", stop="Fox:").start()
    assert server.get("/metrics").status_code == 501
    props = server.get("/props").json()
    assert (props["user_name"], props["assistant_name"]) == ("Fox:", "Assistant:")
    assert props["default_generation_settings"]["repeat_penalty"] == pytest.approx(1.1)
    assert props["default_generation_settings"]["n_ctx"] == 100_000
    answer = server.post("/v1/completions", {"prompt": "Once", "max_tokens": 2}).json()
    assert (answer["object"], len(answer["choices"])) == ("text_completion", 1)
    wait_for(lambda: "Profile llama-server: " in server.logs, "the first screen is printed")
    [line] = [line.strip() for line in server.logs.splitlines() if "Profile llama-server: " in line]
    assert line == (
        "Profile llama-server: n 1, completions_format openai, context_shift on, repeat_penalty 1.1, client_timeout 600, "
        "metrics off."
    )


def test_gunicorn_listens_on_the_profiles_port() -> None:
    done = gunicorn("--print-config", profile="cria")
    assert done.returncode == 0, done.stderr
    assert "127.0.0.1:3000" in done.stdout
