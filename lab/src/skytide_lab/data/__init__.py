"""Data that demonstrations and experiments run on, made up or recorded."""
