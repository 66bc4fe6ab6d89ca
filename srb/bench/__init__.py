"""`srb bench`: a server, a client that uses little CPU, and the measurement of the server's speed with it."""
