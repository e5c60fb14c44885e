"""Experiments of the laboratory, run in the process of a test."""

from skytide_lab.experiments.experiment import Experiment, Row


def play_all(experiment: Experiment) -> list[Row]:
    """Return the rows of an experiment, run piece after piece in this process."""
    return [row for piece in (*experiment.pieces(), *experiment.alone()) for row in experiment.play(*piece)]
