"""`srb top`: readings of a running server by its HTTP API, and a view of them for a terminal."""
