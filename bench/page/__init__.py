"""`make bench-page`: costs of the page in a browser."""
