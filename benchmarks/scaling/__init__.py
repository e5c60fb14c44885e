"""All ways to size a running query, on a real cluster, with the same load."""
