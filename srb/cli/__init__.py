"""The command line: `srb serve` and the commands beside it."""
