"""What `skytide submit` accepts."""

import argparse
from pathlib import Path

from skytide.cli.endpoint import endpoint
from skytide.cli.options import add_serve, span

HELP = "run a script, with an auto-scaler on every streaming query that it starts"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command to a parser."""
    from typing import get_args

    from skytide.control import controller_names, controllers_help
    from skytide.records import Mode

    parser.epilog, parser.formatter_class = controllers_help(), argparse.RawDescriptionHelpFormatter
    parser.add_argument("--controller", default="mpc", help=f"{controller_names()} (default: %(default)s)")
    parser.add_argument("--executors", type=span, default=(1, 8), help="the minimum and maximum number of executors (default: 1:8)")
    parser.add_argument("--interval", help="time from one decision to the next (default: 10 s, or two triggers)")
    parser.add_argument("--mode", choices=get_args(Mode), default="act", help="recommend: only say what it would do")
    parser.add_argument("--store", type=Path, help="folder for what controllers learn, one file per query")
    parser.add_argument(
        "--history", type=Path, help="folder for what was seen of each query, one Parquet file per query, for replay"
    )
    add_serve(parser)
    parser.add_argument(
        "--metrics", type=endpoint, metavar="[ADDRESS:]PORT", help="where Prometheus finds metrics, for instance 9108"
    )
    parser.add_argument("script", type=Path, help="a Python script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="the arguments of the script")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from skytide.cli.submit import run

    names = ("controller", "executors", "interval", "mode", "store", "history", "serve", "metrics")
    return run(options.script, options.arguments, **{name: getattr(options, name) for name in names})
