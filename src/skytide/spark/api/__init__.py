"""What people write: queries on DataFrames and streams, and the handle of one that runs."""
