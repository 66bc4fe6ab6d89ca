"""Modules without their comments: what is left is the same program."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from srb.web.page_files import FOLDER, LIBRARIES, without_comments
from tests.needs import need
from tests.processes import DEADLINE, ROOT

ESBUILD = ROOT / "build" / "page" / "node_modules" / ".bin" / "esbuild"  # of `make page`


def printed(modules: dict[str, str], folder: Path) -> dict[str, str]:
    """Return each module as esbuild prints it: all of its program, and no comments."""
    for name, text in modules.items():
        (folder / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "in" / name).write_text(text)
    command = [ESBUILD, *modules, f"--outdir={folder / 'out'}", "--outbase=.", "--minify-whitespace"]
    subprocess.run(
        [*command, "--legal-comments=none", "--log-level=error"], cwd=folder / "in", timeout=DEADLINE, check=True
    )
    return {name: (folder / "out" / name).read_text() for name in modules}


def test_a_module_without_its_comments_is_the_same_program(tmp_path: Path) -> None:
    need(shutil.which("node") and ESBUILD.exists(), "the packages that `make page` fetches")
    files = [path for path in FOLDER.rglob("*.js") if LIBRARIES not in path.parts]
    modules = {str(path.relative_to(FOLDER)): path.read_text() for path in files}
    assert len(modules) > 50
    served = {name: without_comments(text) for name, text in modules.items()}
    assert printed(served, tmp_path / "served") == printed(modules, tmp_path / "written")


def test_only_comments_with_lines_to_themselves_are_left_out() -> None:
    module = """/** One.
 * Two. */
const a = 1; // three
  // four
const b = `/** five */`;
/** @type {A} */ (b).c();
/** */
"""
    assert (
        without_comments(module)
        == """

const a = 1; // three

const b = `/** five */`;
/** @type {A} */ (b).c();

"""
    )
