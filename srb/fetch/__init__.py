"""Models and libraries that are not on this machine: which is meant, and how it is downloaded."""
