"""An operator in virtual time, for `skytide replay`: what any controller would have done with a recorded load."""
