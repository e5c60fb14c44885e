"""The command `skytide`."""

from skytide.cli.main import main

__all__ = ["main"]
