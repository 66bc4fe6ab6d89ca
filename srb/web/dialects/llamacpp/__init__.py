"""llama-server of llama.cpp."""
