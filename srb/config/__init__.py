"""Settings, from the command line, the environment and a file; models by name; parameters of sampling."""
