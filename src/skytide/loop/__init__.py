"""One control cycle (observe, evaluate, decide, limit, act) and the ports to its plant."""
