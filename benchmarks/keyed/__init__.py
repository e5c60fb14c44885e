"""Operators on keys, against Spark's own keyed state."""
