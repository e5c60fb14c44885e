"""Frozen values that travel between the layers, with units in their names."""
