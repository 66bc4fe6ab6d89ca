"""llama.cpp's library: that of the package llama-srb-native, where it is installed, else the environment's llama-cpp-python.

llama-srb-native has the patched libraries, and its own copy of the binding `llama_cpp`, in a folder that no other program
has on its path. So the two packages share no file, and each may come, change and go without the other.
"""

import importlib
import importlib.util
import sys
from pathlib import Path


def put_on_path() -> None:
    """Let `import llama_cpp` find SRB's own library first, in this process alone."""
    folder, _ = installed()
    if folder and str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def installed() -> tuple[Path | None, str]:
    """Return the folder in which llama-srb-native has its `llama_cpp`, and its version; None and "": it is not installed."""
    try:
        package = importlib.import_module("llama_srb_native")
    except ImportError:
        return None, ""
    return Path(str(package.__file__)).parent, str(package.__version__)


def libraries() -> Path | None:
    """Return the folder of llama.cpp's libraries, which are not loaded for this; None: there is no `llama_cpp`."""
    folder, _ = installed()
    if folder:
        return folder / "llama_cpp/lib"
    found = importlib.util.find_spec("llama_cpp")
    return Path(found.origin).parent / "lib" if found and found.origin else None


def name_of(binding: Path, version: str) -> str:
    """Return the name and the version of the package to which a loaded `llama_cpp` belongs: its file, its own version."""
    folder, of_package = installed()
    is_ours = folder is not None and binding.is_relative_to(folder)
    return f"llama-srb-native {of_package}" if is_ours else f"llama-cpp-python {version}"
