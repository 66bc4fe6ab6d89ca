"""One package per family of requests and answers."""
