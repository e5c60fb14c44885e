"""Continuous queries at the highest rate they keep up with, compared with what a Spark user would write today."""
