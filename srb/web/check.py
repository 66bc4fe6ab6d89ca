"""`python -m srb.web.check`: say in one line what would keep a worker from starting, before anything depends on it."""

from __future__ import annotations

import sys

from srb.errors import ConfigError
from srb.web.app import create_app


def main() -> int:
    """Make the application with the settings that are there now; return the exit status."""
    try:
        create_app()
    except ConfigError as error:
        print(f"srb: {error.message}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
