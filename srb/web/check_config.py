"""Check of the settings: `python -m srb.web.check_config` prints, in one line, the error that would stop a worker."""

from __future__ import annotations

import sys

from srb.errors import ConfigError
from srb.web.app import create_app


def main() -> int:
    """Create the application with the current settings; return the exit status."""
    try:
        create_app()
    except ConfigError as error:
        print(f"srb: {error.message}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
