"""Two servers of 2023."""
