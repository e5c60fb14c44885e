"""What `skytide replay` accepts."""

import argparse
from pathlib import Path

from skytide.cli.options import span

HELP = "what any controller would have done with recorded metrics"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command to a parser."""
    from skytide.control import controller_names, controllers_help

    parser.epilog, parser.formatter_class = controllers_help(), argparse.RawDescriptionHelpFormatter
    parser.add_argument("metrics", type=Path, help="a Parquet file of observations, as an auto-scaler saves them")
    parser.add_argument(
        "--controller",
        action="append",
        dest="controllers",
        required=True,
        help=f"{controller_names()}, or all; may be given several times",
    )
    parser.add_argument("--executors", type=span, default=(1, 8), help="the minimum and maximum number of workers (default: 1:8)")
    parser.add_argument("--lead", default="8 s", help="how long it takes until an added worker is there (default: %(default)s)")
    parser.add_argument("--latency", help="count intervals with a longer latency as violations, instead of those that fall behind")
    parser.add_argument("--picture", type=Path, help="a PNG file to draw rates and workers into; needs matplotlib")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    from skytide.cli.replay import run

    run(options.metrics, options.controllers, options.executors, options.lead, options.latency, options.picture)
