"""Pure decisions on what to admit: many small streams through one source (P1, SPEC §7)."""

from skytide.admission.admit import admit
from skytide.admission.planner import Admission, Planner
from skytide.admission.profile import Profile
from skytide.admission.records import Assignment, Sample
from skytide.admission.strategies import STRATEGIES, Ard, Ari, Drf, Drfm, Outlook, Par, Strategy

__all__ = [
    "STRATEGIES",
    "Admission",
    "Ard",
    "Ari",
    "Assignment",
    "Drf",
    "Drfm",
    "Outlook",
    "Par",
    "Planner",
    "Profile",
    "Sample",
    "Strategy",
    "admit",
]
