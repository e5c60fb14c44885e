"""Pure decisions on where work goes: tuples to pane slots, and tasks to window slots."""

from skytide.routing.completeness import Completeness
from skytide.routing.counting import Frequencies, KeyCounter
from skytide.routing.frequency import FrequencyAware, KeyRouting
from skytide.routing.hashing import Keys, row_hashes
from skytide.routing.panes import (
    AS,
    AS_PID,
    EVEN,
    KEYS,
    PB_RR,
    RATE,
    STRATEGIES,
    TB_RR,
    ByKey,
    LeastLoaded,
    RateAware,
    strategy_of,
)
from skytide.routing.pid import Gains, Pid, PidLogic, tuned
from skytide.routing.ring import HashRing
from skytide.routing.router import Partition, Router, Splitting
from skytide.routing.sizes import RecentSizes
from skytide.routing.utilisation import SlotUse, slot_utilisation
from skytide.routing.windows import POLICIES, Begin, InOrder, Merge, Policy, Task, Update, WindowScheduler

__all__ = [
    "AS",
    "AS_PID",
    "EVEN",
    "KEYS",
    "PB_RR",
    "POLICIES",
    "RATE",
    "STRATEGIES",
    "TB_RR",
    "Begin",
    "ByKey",
    "Completeness",
    "Frequencies",
    "FrequencyAware",
    "Gains",
    "HashRing",
    "InOrder",
    "KeyCounter",
    "KeyRouting",
    "Keys",
    "LeastLoaded",
    "Merge",
    "Partition",
    "Pid",
    "PidLogic",
    "Policy",
    "RateAware",
    "RecentSizes",
    "Router",
    "SlotUse",
    "Splitting",
    "Task",
    "Update",
    "WindowScheduler",
    "row_hashes",
    "slot_utilisation",
    "strategy_of",
    "tuned",
]
