"""gunicorn, as it serves SRB: its configuration, its workers and their connections."""
