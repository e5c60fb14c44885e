"""Sources of our own, which run the pane level where tuples are generated."""
