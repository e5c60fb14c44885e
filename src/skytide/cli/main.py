"""The command line: each subcommand is a module of this folder."""

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from skytide import __version__
from skytide.cli.place import HERE, place, with_place
from skytide.errors import SkytideError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand, and return its exit status."""
    parser = argparse.ArgumentParser(prog="skytide", description="Elastic stream processing on Apache Spark.")
    parser.add_argument("--version", action="version", version=f"skytide {__version__}")
    commands = parser.add_subparsers(required=True, metavar="command")
    run = commands.add_parser("run", help="a continuous skyline of a bursty, late stream, watched live, and as a picture")
    run.add_argument("--seconds", type=float, default=40, help="how long to stream (default: %(default)s)")
    run.add_argument("--rate", type=float, default=20_000, help="tuples per second on average (default: %(default)s)")
    run.add_argument("--out", type=Path, default=Path("out"), help="folder for the results (default: %(default)s)")
    _add_serve(run)
    run.set_defaults(run=_run)
    _add_fleet(
        commands.add_parser("fleet", help="windows over hundreds of streams that come and go, watched live, and as a picture")
    )
    _add_trading(
        commands.add_parser("trading", help="a price forecast for each symbol of a trading day, watched live, and as a picture")
    )
    hotels = commands.add_parser("hotels", help="the skyline of 100,000 made-up hotels, as a table and a picture")
    hotels.add_argument("--out", type=Path, default=Path("out"), help="folder for the results (default: %(default)s)")
    hotels.set_defaults(run=_hotels)
    _add_lab(commands.add_parser("lab", help="what the papers measured, measured again"))
    _add_replay(commands.add_parser("replay", help="what any controller would have done with recorded metrics"))
    _add_submit(commands.add_parser("submit", help="run a script, with an auto-scaler on every streaming query that it starts"))
    _add_checkpoint(commands.add_parser("checkpoint", help="the states of a continuous query that it can go back to"))
    options = parser.parse_args(with_place(sys.argv[1:] if arguments is None else arguments))
    try:
        return options.run(options) or 0
    except SkytideError as error:
        print(f"skytide: {_as_options(str(error), vars(options))}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130  # as shells report it


def _as_options(message: str, given: Mapping[str, Any]) -> str:
    """Return a message with the arguments of functions that it names written as options of the command line.

    >>> _as_options("interval='soon': not a length of time; write a number", {"interval": "soon"})
    '--interval soon: not a length of time; write a number'
    """
    names = "|".join(map(re.escape, given))
    message = re.sub(r"^minimum=(\d+), maximum=(\d+)", r"--executors \1:\2", message)
    return re.sub(rf"\b({names})=(?:'([^']*)'|([\w.:-]+))", lambda found: f"--{found[1]} {found[2] or found[3]}", message)


def _add_fleet(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=30, help="how long to stream (default: %(default)s)")
    parser.add_argument("--streams", type=int, default=500, help="how many to make up (default: %(default)s)")
    parser.add_argument(
        "--rate", type=float, default=20_000, help="tuples per second of all streams on average (default: %(default)s)"
    )
    parser.add_argument(
        "--cabs",
        type=Path,
        nargs="?",
        const=Path("cabs_20080520.parquet"),
        metavar="FILE",
        help="replay a Parquet file of ts, cab, lat, lon, occupied instead, one stream per cab; a name is also looked up in SKYTIDE_DATA",
    )
    parser.add_argument("--speed", type=float, default=600, help="how many times faster than the cabs were (default: %(default)s)")
    parser.add_argument(
        "--capacity",
        type=float,
        default=15_000,
        help="tuples per second that a split takes, low enough to see several of them (default: %(default)s)",
    )
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the results (default: %(default)s)")
    names = ("seconds", "streams", "rate", "cabs", "speed", "capacity", "out")
    parser.set_defaults(run=lambda o: _module("fleet").run(**{name: getattr(o, name) for name in names}))


def _add_trading(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=40, help="how long to stream (default: %(default)s)")
    parser.add_argument("--symbols", type=int, default=40, help="how many to make up (default: %(default)s)")
    parser.add_argument(
        "--rate", type=float, default=60_000, help="quotes per second of all symbols on average (default: %(default)s)"
    )
    parser.add_argument(
        "--quotes",
        type=Path,
        nargs="?",
        const=Path("quotes_20131007.parquet"),
        metavar="FILE",
        help="replay a Parquet file of ts, symbol, price, size instead; a name is also looked up in SKYTIDE_DATA",
    )
    parser.add_argument("--speed", type=float, default=600, help="how many times faster than the day was (default: %(default)s)")
    parser.add_argument("--slots", type=int, default=4, help="how many tasks may work on symbols at most (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the results (default: %(default)s)")
    names = ("seconds", "symbols", "rate", "quotes", "speed", "slots", "out")
    parser.set_defaults(run=lambda o: _module("trading").run(**{name: getattr(o, name) for name in names}))


def _add_lab(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(required=True, metavar="what")
    commands.add_parser("list", help="all experiments").set_defaults(run=lambda _: _module("lab").show_list())
    run = commands.add_parser(
        "run", help="run experiments: each leaves a table, a picture and a verdict; the exit status is 0 if all claims hold"
    )
    run.add_argument("names", nargs="+", help="X1 and so on, or all")
    run.set_defaults(run=lambda options: _module("lab").run(options.names, options.out))
    report = commands.add_parser("report", help="one page about all experiments that were run")
    report.set_defaults(run=lambda options: _module("lab").report(options.out))
    calibrate = commands.add_parser("calibrate", help="measure what work costs on this machine, for the simulator")
    calibrate.add_argument("algorithms", nargs="*", default=["bnl", "skytide"], help="bnl, skytide (default: both)")
    calibrate.set_defaults(run=lambda options: _module("lab").run_calibration(options.algorithms, options.out))
    for each in (run, report, calibrate):
        each.add_argument("--out", type=Path, default=Path("out"), help="folder for the results (default: %(default)s)")


def _add_replay(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("metrics", type=Path, help="a Parquet file of observations, as an auto-scaler saves them")
    parser.add_argument(
        "--controller",
        action="append",
        dest="controllers",
        required=True,
        help='fuzzy, mpc, "mpc:2 s", rules, spl, local, global, sarsa, static:4, or all; may be given several times',
    )
    parser.add_argument("--executors", type=_span, default=(1, 8), help="the minimum and maximum number of workers (default: 1:8)")
    parser.add_argument("--lead", default="8 s", help="how long it takes until an added worker is there (default: %(default)s)")
    parser.add_argument("--latency", help="count intervals with a longer latency as violations, instead of those that fall behind")
    parser.add_argument("--picture", type=Path, help="a PNG file to draw rates and workers into")
    parser.set_defaults(run=lambda o: _module("replay").run(o.metrics, o.controllers, o.executors, o.lead, o.latency, o.picture))


def _add_submit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--controller", default="mpc", help="one of those of replay (default: %(default)s)")
    parser.add_argument(
        "--executors", type=_span, default=(1, 8), help="the minimum and maximum number of executors (default: 1:8)"
    )
    parser.add_argument("--interval", help="time from one decision to the next (default: 10 s, or two triggers)")
    parser.add_argument("--mode", choices=("act", "recommend"), default="act", help="recommend: only say what it would do")
    parser.add_argument("--store", type=Path, help="folder for what controllers learn, one file per query")
    parser.add_argument(
        "--history", type=Path, help="folder for what was seen of each query, one Parquet file per query, for replay"
    )
    _add_serve(parser)
    parser.add_argument("--metrics", type=place, metavar="[ADDRESS:]PORT", help="where Prometheus finds metrics, for instance 9108")
    parser.add_argument("script", type=Path, help="a Python script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="the arguments of the script")
    names = ("controller", "executors", "interval", "mode", "store", "history", "serve", "metrics")
    parser.set_defaults(run=lambda o: _module("submit").run(o.script, o.arguments, **{name: getattr(o, name) for name in names}))


def _add_checkpoint(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(required=True, metavar="what")
    listing = commands.add_parser("list", help="the states that are kept")
    listing.set_defaults(run=lambda options: _module("checkpoint").show_list(options.folder))
    back = commands.add_parser("back", help="go back to one of them while no query runs; what came after it is done again")
    back.add_argument("--to", type=int, required=True, metavar="SEQUENCE", help="the number of the state, as listed")
    back.set_defaults(run=lambda options: _module("checkpoint").back(options.folder, options.to))
    for each in (listing, back):
        each.add_argument("folder", help="the folder that the query was given as checkpoint=")


def _add_serve(parser: argparse.ArgumentParser) -> None:
    text = "show a live page meanwhile, on this machine, or at another ADDRESS for those who have the token that is printed"
    parser.add_argument("--serve", type=place, metavar="ADDRESS:PORT", nargs="?", const=HERE, help=text)


def _span(text: str) -> tuple[int, int]:
    """Return the minimum and maximum of a text such as "1:8"."""
    minimum, _, maximum = text.partition(":")
    if not (minimum.isdigit() and maximum.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r}: not a minimum and a maximum; write them as 1:8")
    return int(minimum), int(maximum)


def _run(options: argparse.Namespace) -> None:
    _module("run").run(seconds=options.seconds, rate=options.rate, out=options.out, serve=options.serve)


def _hotels(options: argparse.Namespace) -> None:
    _module("hotels").run(options.out)


def _module(command: str) -> Any:
    try:
        return import_module(f"skytide.cli.{command}")
    except ModuleNotFoundError as missing:
        raise SkytideError(f"{missing.name} is not installed; run `pip install 'skytide[lab]'`") from missing
