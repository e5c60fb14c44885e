"""What people and monitoring systems see of running queries, auto-scalers and fleets: a live page, and metrics. Knows nothing of Spark."""
