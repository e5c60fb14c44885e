"""Where results go: a port, one file per sink, and a table of them."""
