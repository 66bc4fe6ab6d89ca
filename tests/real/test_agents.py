"""Claude Code and Codex as they are: a conversation of several turns with SmolLM2, a call of a tool among them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.namespaces import run_in_own_network
from tests.real.agents import AGENTS
from tests.real.conftest import need_model

pytestmark = pytest.mark.timeout(900)  # seconds of a test, for a machine that does much else


@pytest.mark.parametrize("name", AGENTS)
def test_a_session_of_several_turns_calls_a_tool_and_shows_what_is_served(name: str, tmp_path: Path) -> None:
    need_model("smollm2")
    program = AGENTS[name].program
    if not program.exists() or subprocess.run([program, "--version"], capture_output=True, check=False).returncode:
        pytest.skip(f"`make agents` has not installed {name}, or it does not run here")
    run_in_own_network("tests.real.agents", name, tmp_path)
