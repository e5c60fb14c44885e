"""Continuous queries at the highest rate they keep up with, against what a Spark user would write today."""
