"""The command line: its commands are found by entry points, so that other packages can add some."""

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from typing import Any

from skytide import __version__
from skytide.cli.endpoint import with_endpoint
from skytide.errors import SkytideError

COMMANDS = "skytide.commands"
"""The group of entry points. Each names a module with a text `HELP` and a function `add_arguments(parser)`, which sets `run`; it imports what it needs when it runs."""
LABORATORY = "demonstrations and experiments come with the laboratory: pip install 'skytide[lab]'"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command, and return its exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    commands = {command.name: command for command in entry_points(group=COMMANDS)}
    options = _parser(commands, words[:1]).parse_args([*words[:1], *with_endpoint(words[1:])])
    try:
        return options.run(options) or 0
    except SkytideError as error:
        print(f"skytide: {_as_options(str(error), vars(options))}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130  # as shells report it


def _parser(commands: Mapping[str, EntryPoint], first: Sequence[str]) -> argparse.ArgumentParser:
    """Return a parser for the command that is named first, or for all of them if none is."""
    missing = None if find_spec("skytide_lab") else LABORATORY
    parser = argparse.ArgumentParser(prog="skytide", description="Elastic stream processing on Apache Spark.", epilog=missing)
    parser.add_argument("--version", action="version", version=f"skytide {__version__}")
    parsers = parser.add_subparsers(required=True, metavar="command")
    if first and first[0] not in commands and not first[0].startswith("-"):
        there_are = f"there are {', '.join(sorted(commands))}"
        parser.error("; ".join(filter(None, (f"{first[0]}: no such command", there_are, missing))))
    for name in first if first and first[0] in commands else sorted(commands):
        command = commands[name].load()
        command.add_arguments(parsers.add_parser(name, help=command.HELP))
    return parser


def _as_options(message: str, given: Mapping[str, Any]) -> str:
    """Return a message with the arguments of functions that it names written as options of the command line.

    >>> _as_options("interval='soon': not a length of time; write a number", {"interval": "soon"})
    '--interval soon: not a length of time; write a number'
    """
    names = "|".join(map(re.escape, given))
    message = re.sub(r"^minimum=(\d+), maximum=(\d+)", r"--executors \1:\2", message)
    return re.sub(rf"\b({names})=(?:'([^']*)'|([\w.:-]+))", lambda named: f"--{named[1]} {named[2] or named[3]}", message)
