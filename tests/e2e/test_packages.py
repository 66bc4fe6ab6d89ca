"""Whole servers with packages of others beside them."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from srb.exit_codes import EXIT_CONFIG
from srb.extensions import FAMILIES
from tests.e2e.test_deploys import reload
from tests.e2e.test_profiles import gunicorn
from tests.packages import install, install_example
from tests.processes import wait_for
from tests.servers import MakeServer

pytestmark = pytest.mark.e2e


def test_a_server_answers_in_the_dialect_of_an_installed_package(
    make_server: MakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_example(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    server = make_server(dialects="echo").start()
    assert server.post("/echo/complete", {"prompt": "Once", "max_tokens": 2}).json().keys() == {"texts"}
    assert [server.get(path).status_code for path in ("/echo/models", "/health", "/", "/v1/srb/server")] == [
        200,
        200,
        404,
        404,
    ]


def test_a_server_with_a_broken_package_ends_before_anything_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "srb-other", {FAMILIES: {"other": "srb_other:F"}}, "import nowhere")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    done = gunicorn()
    assert done.returncode == EXIT_CONFIG
    assert done.stderr == (
        "srb: the family 'other' of the package srb-other 1.0 cannot be loaded: ModuleNotFoundError: No module named "
        "'nowhere'. Mend or uninstall the package\n"
    )


def test_a_reload_finds_a_package_that_was_installed_meanwhile_and_refuses_a_broken_one(
    make_server: MakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    server = make_server().start()
    assert server.get("/echo/models").status_code == 404
    install_example(tmp_path)
    reload(server)
    assert server.get("/echo/models").status_code == 200
    install(tmp_path, "srb-other", {FAMILIES: {"other": "srb_other:F"}}, "import nowhere")
    server.process.send(signal.SIGHUP)
    wait_for(
        lambda: "the family 'other' of the package srb-other 1.0 cannot be loaded" in server.logs, "the log says why"
    )
    assert server.get("/echo/models").status_code == 200
