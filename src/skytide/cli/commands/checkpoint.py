"""What `skytide checkpoint` accepts."""

import argparse

HELP = "the states of a continuous query that it can go back to"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command to a parser."""
    actions = parser.add_subparsers(required=True, metavar="what")
    listing = actions.add_parser("list", help="the states that are kept")
    listing.set_defaults(run=_list)
    back = actions.add_parser("back", help="go back to one of them while no query runs; what came after it is done again")
    back.add_argument("--to", type=int, required=True, metavar="SEQUENCE", help="the number of the state, as listed")
    back.set_defaults(run=_back)
    for action in (listing, back):
        action.add_argument("folder", help="the folder that the query was given as checkpoint=")


def _list(options: argparse.Namespace) -> int:
    from skytide.cli.checkpoint import show_list

    return show_list(options.folder)


def _back(options: argparse.Namespace) -> int:
    from skytide.cli.checkpoint import back

    return back(options.folder, options.to)
