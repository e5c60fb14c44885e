"""The laboratory: workloads replayed in virtual time, measured and drawn."""
