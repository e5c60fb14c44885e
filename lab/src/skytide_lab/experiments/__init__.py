"""The experiments of the papers: workloads replayed in virtual time or on Spark, measured and drawn."""
