"""Every module of the package and of the page, with the first sentence of its docstring: `python -m tools.file_list`."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
_HEAD = "# The files of the package\n"


def render() -> str:
    """Return the page: a section for each package, a row for each of its modules."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "srb"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    paths = [
        path for each in listed.stdout.splitlines() if (path := ROOT / each).suffix in (".py", ".js") and path.exists()
    ]
    folders: dict[Path, list[Path]] = {}
    for path in sorted(path for path in paths if "vendor" not in path.parts):
        folders.setdefault(path.parent, []).append(path)
    return _HEAD + "".join(_section(folder, found) for folder, found in sorted(folders.items()))


def _section(folder: Path, paths: list[Path]) -> str:
    name, package = folder.relative_to(ROOT).as_posix(), folder / "__init__.py"
    about = f"{first_sentence(package)}\n\n" if package in paths else ""
    rows = [f"| `{path.name}` | {first_sentence(path)} |\n" for path in paths if path != package]
    return f"\n## {name}\n\n{about}" + ("| module | |\n|---|---|\n" + "".join(rows) if rows else "")


def first_sentence(path: Path) -> str:
    """Return the first sentence that a module says about itself. Raise ValueError if it says nothing."""
    text = path.read_text()
    said = (ast.get_docstring(ast.parse(text)) if path.suffix == ".py" else _first_comment(text)) or ""
    sentence = re.match(r".+?\.(?=\s|$)|.+", " ".join(said.partition("\n\n")[0].split()))
    if sentence is None:
        raise ValueError(f"{path} does not say what it is for")
    return re.sub(r"([|<*])", r"\\\1", sentence[0].removesuffix("."))


def _first_comment(text: str) -> str:
    """Return the comment at the beginning of a module of JavaScript."""
    if match := re.match(r"/\*\*(.*?)\*/", text, re.DOTALL):
        return re.sub(r"^\s*\* ?", "", match[1], flags=re.MULTILINE).partition("@")[0].strip()
    lines = re.match(r"(//.*\n)*", text)
    return "\n".join(line.removeprefix("//").strip() for line in lines[0].splitlines()) if lines else ""


if __name__ == "__main__":
    print(render(), end="")
