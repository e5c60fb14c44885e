"""Judges the hosts of a cluster one by one, and places operators on them (P4)."""
