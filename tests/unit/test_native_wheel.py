"""tools/native_wheel.py: the wheel has what was installed and nothing else, in the same bytes each time."""

from __future__ import annotations

import zipfile
from importlib.metadata import PathDistribution
from pathlib import Path

import pytest

from tools.native_wheel import _digest, files_of, metadata, write

BINDING = b'__version__ = "0.3.36"\n'
METADATA = """Metadata-Version: 2.1
Name: llama_cpp_python
Version: 0.3.36
Requires-Dist: numpy>=1.20.0
Requires-Dist: fastapi>=0.100.0; extra == "server"
"""


@pytest.fixture
def package(tmp_path: Path) -> PathDistribution:
    """llama-cpp-python as pip installs it, with what only its build or Python needs."""
    files = {
        "llama_cpp/__init__.py": BINDING,
        "llama_cpp/lib/libllama.so": b"\x7fELF",
        "llama_cpp/lib/cmake/llama/llama-config.cmake": b"",
        "llama_cpp/lib/pkgconfig/llama.pc": b"",
        "llama_cpp/__pycache__/__init__.cpython-311.pyc": b"",
        "llama_cpp_python-0.3.36.dist-info/METADATA": METADATA.encode(),
    }
    for name, content in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    info = tmp_path / "llama_cpp_python-0.3.36.dist-info"
    (info / "RECORD").write_text(
        "".join(f"{name},sha256={_digest(content)},{len(content)}\n" for name, content in files.items())
    )
    return PathDistribution(info)


def test_the_binding_and_the_libraries_lie_in_one_folder_as_they_were_installed(package: PathDistribution) -> None:
    assert dict(files_of(package)) == {
        "llama_srb_native/llama_cpp/__init__.py": BINDING,
        "llama_srb_native/llama_cpp/lib/libllama.so": b"\x7fELF",
    }


def test_a_file_that_was_changed_since_is_refused(package: PathDistribution, tmp_path: Path) -> None:
    (tmp_path / "llama_cpp/__init__.py").write_text("changed = True\n")
    with pytest.raises(ValueError, match=r"llama_cpp/__init__\.py is not as it was installed"):
        dict(files_of(package))


def test_it_needs_what_the_binding_needs_without_its_server(package: PathDistribution) -> None:
    lines = metadata(package, ["llama.cpp"]).splitlines()
    assert [line for line in lines if line.startswith("Requires-Dist")] == ["Requires-Dist: numpy>=1.20.0"]
    assert {"License-File: llama.cpp", "License-Expression: MIT"} <= set(lines)


def test_the_same_files_make_the_same_bytes_whatever_their_order(tmp_path: Path) -> None:
    files = {"b/two.py": b"2", "a/one.py": b"1"}
    write(tmp_path / "one.whl", files, 1_700_000_001)
    write(tmp_path / "two.whl", dict(reversed(files.items())), 1_700_000_001)
    assert (tmp_path / "one.whl").read_bytes() == (tmp_path / "two.whl").read_bytes()
    with zipfile.ZipFile(tmp_path / "one.whl") as archive:
        assert archive.namelist()[:2] == ["a/one.py", "b/two.py"]
        record = archive.read(archive.namelist()[-1]).decode()
    assert record.splitlines()[0] == f"a/one.py,sha256={_digest(b'1')},1"
