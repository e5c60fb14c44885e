"""Sessions, clusters and workers: what has to be there before a query can run."""
