"""Commands that run a module in a Python of its own: with this interpreter and this package, wherever they are started.

Python's `-m` alone puts the working directory before all packages, so that a clone called `srb` there, or somebody's `http`,
would be run in the place of what is installed. `-P` leaves it out; relative paths still begin at the working directory.
"""

import sys


def module_command(module: str, *arguments: str) -> list[str]:
    """Return the words of a command that runs a module."""
    return [sys.executable, "-P", "-m", module, *arguments]
