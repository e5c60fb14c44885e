"""Hosts of a cluster judged one by one, and operators placed on them (P4)."""
