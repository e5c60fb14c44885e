"""A micro-batch on Spark: the levels of panes, windows and keys, and the jobs that run them."""
