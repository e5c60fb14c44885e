"""Sliding windows and their panes, as integer arithmetic over half-open intervals."""
