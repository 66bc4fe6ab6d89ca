"""Serve this checkout: `gunicorn -c gunicorn.conf.py wsgi:app`. The settings are in config/default.toml."""

from srb.serve.gunicorn_conf import *  # noqa: F403
