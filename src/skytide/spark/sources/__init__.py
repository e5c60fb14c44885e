"""Sources of our own that do the pane level where tuples are made."""
