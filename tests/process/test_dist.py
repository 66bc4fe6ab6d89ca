"""The files of a release: whoever makes them of a commit gets the same bytes, and all that the package needs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

from srb.version import NATIVE
from tests.processes import ROOT
from tools.llama_sources import pinned


def made(source: Path, target: Path, **options: object) -> list[Path]:
    """Return the sdist and the wheel that a clone makes of itself."""
    command = [sys.executable, "-m", "tools.dist", str(target)]
    environ = {**os.environ, "PYTHONPATH": str(source), **options.pop("env", {})}  # type: ignore[dict-item]
    done = subprocess.run(
        command, cwd=source, env=environ, capture_output=True, text=True, check=False, **options  # type: ignore[call-overload]
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [Path(line) for line in done.stdout.splitlines()[-2:]]


def test_two_people_make_the_same_bytes_of_a_commit(tmp_path: Path) -> None:
    """In another folder, zone and language, with another umask, beside files that are no part of the commit."""
    other = tmp_path / "a clone"
    command = ["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(other)]
    subprocess.run(command, check=True, umask=0o077, capture_output=True)
    shutil.copy(ROOT / "tools/dist.py", other / "tools/dist.py")
    (other / "srb/left_behind.py").touch()
    environ = {"TZ": "Pacific/Kiritimati", "LC_ALL": "C", "SOURCE_DATE_EPOCH": ""}
    theirs = made(other, tmp_path / "theirs", umask=0o077, env=environ)
    ours = made(ROOT, tmp_path / "ours", env={"SOURCE_DATE_EPOCH": ""})
    assert [path.name for path in ours] == [path.name for path in theirs]
    assert [path.read_bytes() for path in ours] == [path.read_bytes() for path in theirs]
    sdist, wheel = ours
    with tarfile.open(sdist) as archive:
        names = archive.getnames()
        assert names == sorted(names)
        assert {(entry.uid, entry.gid, entry.uname) for entry in archive} == {(0, 0, "")}
    inside = {name.partition("/")[2] for name in names}
    assert {"Makefile", "native/llama.cmake", "tests/process/test_dist.py", "srb/config/files/default.toml"} <= inside
    with zipfile.ZipFile(wheel) as archive_of_wheel:
        found = set(archive_of_wheel.namelist())
        [information] = [archive_of_wheel.read(name) for name in found if name.endswith(".dist-info/METADATA")]
    assert {"srb/serve/reload.py", "srb/config/files/systemd/srb.service", "srb/page/desk.js"} <= found
    assert "srb/left_behind.py" not in found
    with tarfile.open(sdist) as archive:
        package = archive.extractfile(names[0].partition("/")[0] + "/PKG-INFO")
        assert package
        assert [needs(information), needs(package.read())] == [[f"llama-srb-native=={NATIVE}"]] * 2


def needs(information: bytes) -> list[str]:
    """Return which llama.cpp a package asks for."""
    return re.findall(r"^Requires-Dist: (llama\S+)$", information.decode(), re.MULTILINE)


def test_a_checkout_asks_for_the_binding_that_it_compiles(tmp_path: Path) -> None:
    script = "import sys; from tools import backend; print(backend.prepare_metadata_for_build_editable(sys.argv[1]))"
    command = [sys.executable, "-c", script, str(tmp_path)]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    information = (tmp_path / printed.splitlines()[-1] / "METADATA").read_bytes()
    assert needs(information) == [f"llama-cpp-python=={pinned()}"]
