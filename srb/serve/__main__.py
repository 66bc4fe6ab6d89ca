"""gunicorn's command, `python -P -m srb.serve`, without the working directory among the folders of packages.

gunicorn's own puts it before all others, where a folder called `srb` or `flask` would be taken for the package.
"""

import os

from gunicorn.app.wsgiapp import WSGIApplication


class _Application(WSGIApplication):  # type: ignore[misc]
    def chdir(self) -> None:
        os.chdir(self.cfg.chdir)


if __name__ == "__main__":
    _Application("%(prog)s [OPTIONS] [APP_MODULE]", prog="gunicorn").run()
