"""Models with random weights that tests and benchmarks write for themselves."""
