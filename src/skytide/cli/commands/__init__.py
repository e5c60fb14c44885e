"""The commands of the core: what each accepts, and which function does it. What that needs is loaded when it runs."""
