"""Hosts with operators on them, as FUGU (P4) has them: which operator runs where, and when it moves."""
