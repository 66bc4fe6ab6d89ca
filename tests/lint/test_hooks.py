"""The hooks of pre-commit: they are the steps of `make lint`, and the files that they ask for are there."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from tests.processes import ROOT

HOOKS: dict[str, dict[str, Any]] = {
    hook["id"]: hook
    for repository in yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    for hook in repository["hooks"]
}
MAKEFILE = (ROOT / "Makefile").read_text()


@pytest.mark.parametrize(
    ("hook", "path"),
    [
        *(
            ("generated", f"srb/config/{name}")
            for name in ("sampling_params.py", "sampling_params.toml", "settings.toml")
        ),
        *(("generated", name) for name in ("srb/cli/stories.py", "srb/cli/flags.toml", "tools/generated.py")),
        *(("page", f"srb/page/{name}") for name in ("desk.js", "languages/de.json", "parts/rest.js")),
        ("page", "tests/page/unit/chapters.test.js"),
        ("mypy", "srb/cli/main.py"),
    ],
)
def test_a_change_of_a_file_runs_its_hook(hook: str, path: str) -> None:
    assert (ROOT / path).exists()
    assert re.search(HOOKS[hook]["files"], path)


def test_every_folder_that_a_hook_names_is_there() -> None:
    for hook in HOOKS.values():
        named = re.match(r"\^\(([\w/|]*)\)/", hook.get("files", ""))
        assert [name for name in (named[1].split("|") if named else ()) if not (ROOT / name).is_dir()] == [], hook["id"]


def test_the_hooks_are_the_steps_of_make_lint_and_what_writes_files() -> None:
    lint = MAKEFILE.partition("\nlint:")[2].partition("\n\n")[0].replace("$(BIN)", ".venv/bin")
    for hook in HOOKS.values():
        words = hook["entry"].split()
        if words[0] == "make":
            assert words[1] in lint
        elif words[1:] != ["-m", "tools.generated"]:
            assert " ".join(words[:2]).removesuffix(" --force-exclude") in lint, hook["id"]
