"""What people and monitoring systems see of queries, auto-scalers and fleets that run: a live page, and metrics. Knows nothing of Spark."""
