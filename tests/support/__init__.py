"""What tests share: oracles, streams, jobs to kill, a fake cluster."""
