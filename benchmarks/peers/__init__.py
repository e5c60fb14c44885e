"""The same stream and query on what a user might pick instead, each in an environment of its own."""
