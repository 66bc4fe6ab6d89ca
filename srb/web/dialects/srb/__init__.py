"""SRB's own."""
