"""Operators on keys, compared with Spark's own keyed state."""
