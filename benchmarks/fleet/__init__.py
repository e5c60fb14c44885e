"""Fleets of streams against what a user would have instead."""
