"""Options that several commands of the laboratory have."""

import argparse
from pathlib import Path


def add_out(parser: argparse.ArgumentParser) -> None:
    """Let a command write its results to another folder."""
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the results (default: %(default)s)")
