"""The controllers: each decides from evaluations how many workers a query gets."""
