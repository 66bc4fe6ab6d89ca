"""The WSGI application that gunicorn serves: `gunicorn -c gunicorn.conf.py wsgi:app`."""

from srb.web.app import create_app

app = create_app()
