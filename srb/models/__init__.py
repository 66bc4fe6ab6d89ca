"""Several models in one server: their list, and the supervisor that starts and ends their engines in turns."""
