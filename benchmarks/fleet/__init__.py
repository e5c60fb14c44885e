"""Fleets of streams, compared with what a user would have otherwise."""
