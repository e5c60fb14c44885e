"""The simulated plant: a discrete-event simulator in virtual time, behind the same ports as Spark."""
