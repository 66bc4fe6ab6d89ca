"""Benchmarks of SRB: the server against bare llama.cpp, as ratios, and the server with many clients."""
