"""All ways to choose how long to wait for late tuples: `skytide.slacks.KSlack`. What is in the table `skytide.lateness.SLACKS` is here."""

from typing import TYPE_CHECKING

from skytide.lateness import SLACKS, Slack

if TYPE_CHECKING:
    from skytide.lateness.slack import *  # noqa: F403

globals().update({slack.__name__: slack for slack in SLACKS})
__all__ = ["Slack", *(slack.__name__ for slack in SLACKS)]  # noqa: PLE0604
