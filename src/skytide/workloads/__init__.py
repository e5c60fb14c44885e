"""Generators of data and arrivals, whose randomness is derived from identity."""
