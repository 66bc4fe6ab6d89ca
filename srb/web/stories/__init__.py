"""The stories over HTTP, for the server's own page alone."""
