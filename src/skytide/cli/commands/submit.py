"""What `skytide submit` accepts."""

import argparse
from pathlib import Path

from skytide.cli.endpoint import endpoint
from skytide.cli.options import add_serve, named, numbers, span

HELP = "run a script, with an auto-scaler for all streaming queries that it starts"


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
    parser.add_argument(
        "--bound",
        type=named,
        action="append",
        metavar="NAME=LENGTH",
        help="the mean latency that a query must keep, as orders=2s (repeatable)",
    )
    parser.add_argument(
        "--priority",
        type=named,
        action="append",
        metavar="NAME=NUMBER",
        help="who is late last if the maximum does not suffice, as orders=2; others have 1 (repeatable)",
    )
    parser.add_argument(
        "--drain", default="60 s", help="how long an executor that goes may finish its tasks (default: %(default)s)"
    )
    parser.add_argument("--store", help="folder or URI for what controllers learn: one file, or one per query in local mode")
    parser.add_argument(
        "--history", type=Path, help="folder for what was seen, for replay: one Parquet file, or one per query in local mode"
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

    names = ("controller", "executors", "interval", "mode", "drain", "store", "history", "serve", "metrics")
    bounds, priorities = dict(options.bound or ()), numbers(options.priority or ())
    given = {name: getattr(options, name) for name in names}
    return run(options.script, options.arguments, bounds=bounds, priorities=priorities, **given)
