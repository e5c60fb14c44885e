"""What tests share: oracles, streams, jobs to kill, a cluster that is made up."""
