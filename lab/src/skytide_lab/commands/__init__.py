"""The commands that the laboratory adds to `skytide`: what each accepts, and which function does it."""
