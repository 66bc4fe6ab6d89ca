"""The worker's one thread, which all its calls share."""
