"""From the command line to gunicorn."""
