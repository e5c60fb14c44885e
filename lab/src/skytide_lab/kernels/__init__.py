"""Compiled inner loops that only the laboratory needs."""
