"""What `skytide lab` accepts."""

import argparse

from skytide_lab.commands.options import add_out

HELP = "what the papers measured, measured again"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command to a parser."""
    actions = parser.add_subparsers(required=True, metavar="what")
    actions.add_parser("list", help="all experiments").set_defaults(run=_list)
    run = actions.add_parser(
        "run", help="run experiments: each leaves a table, a picture and a verdict; the exit status is 0 if all claims hold"
    )
    run.add_argument("names", nargs="+", help="X1 and so on, or all")
    run.set_defaults(run=_run)
    report = actions.add_parser("report", help="one page about all experiments that were run")
    report.set_defaults(run=_report)
    calibrate = actions.add_parser("calibrate", help="measure what work costs on this machine, for the simulator")
    calibrate.add_argument("algorithms", nargs="*", default=["bnl", "skytide"], help="bnl, skytide (default: both)")
    calibrate.set_defaults(run=_calibrate)
    for action in (run, report, calibrate):
        add_out(action)


def _list(_: argparse.Namespace) -> int:
    from skytide_lab.experiments.terminal import show_list

    return show_list()


def _run(options: argparse.Namespace) -> int:
    from skytide_lab.experiments.terminal import run

    return run(options.names, options.out)


def _report(options: argparse.Namespace) -> int:
    from skytide_lab.experiments.terminal import report

    return report(options.out)


def _calibrate(options: argparse.Namespace) -> int:
    from skytide_lab.experiments.terminal import run_calibration

    return run_calibration(options.algorithms, options.out)
