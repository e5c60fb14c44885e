"""All controllers of the auto-scaler: `skytide.controllers.Mpc`. What is in the table `skytide.control.CONTROLLERS` is here."""

from typing import TYPE_CHECKING

from skytide.control import CONTROLLERS, Controller

if TYPE_CHECKING:
    from skytide.control import *  # noqa: F403

_CLASSES = {type(make()).__name__: type(make()) for make in CONTROLLERS.values()}
globals().update(_CLASSES)
__all__ = ["Controller", *_CLASSES]  # noqa: PLE0604
