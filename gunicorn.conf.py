"""Serve this checkout: `gunicorn -c gunicorn.conf.py wsgi:app`. The settings are in config/default.toml."""

import os

from srb.serve.gunicorn_conf import *  # noqa: F403

# The engine runs this checkout, too, and not what is installed beside it. A reload reads this file again.
_PATHS = [os.path.dirname(os.path.abspath(__file__)), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(_PATHS))
