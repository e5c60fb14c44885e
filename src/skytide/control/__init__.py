"""Pure decisions about size: controllers, models, and the guard that limits them."""

from skytide.control.controller import Controller, ControllerLogic
from skytide.control.controllers.congestion import Congestion
from skytide.control.controllers.fuzzy import Fuzzy
from skytide.control.controllers.mpc import Mpc
from skytide.control.controllers.proportional import Proportional
from skytide.control.controllers.sarsa import Sarsa
from skytide.control.controllers.static import Static
from skytide.control.controllers.thresholds import GlobalThresholds, LocalThresholds
from skytide.control.controllers.utilisation import UtilisationThresholds
from skytide.control.guard import Guard
from skytide.control.registry import CONTROLLERS, controller_names, controller_of, controllers_help
from skytide.errors.deprecation import renamed

__all__ = [
    "CONTROLLERS",
    "Congestion",
    "Controller",
    "ControllerLogic",
    "Fuzzy",
    "GlobalThresholds",
    "Guard",
    "LocalThresholds",
    "Mpc",
    "Proportional",
    "Sarsa",
    "Static",
    "UtilisationThresholds",
    "controller_names",
    "controller_of",
    "controllers_help",
]
__getattr__ = renamed(__name__, {"Rules": "UtilisationThresholds", "Sizes": "Proportional", "Spl": "Congestion"})
