"""The controllers: each decides from evaluations how much to run."""
