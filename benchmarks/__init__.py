"""Compares skytide with what people use today: `python -m benchmarks`, with the names of some parts or without for all."""
