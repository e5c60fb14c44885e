"""Models of an operator and of the costs of plans, and the search for the best plan."""
