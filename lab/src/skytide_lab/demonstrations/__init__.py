"""The demonstrations: queries on made-up or recorded streams, watched live in a terminal, and as pictures."""
