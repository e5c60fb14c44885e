"""Pure decisions on where tuples go: to which of the slots of the pane level."""

from skytide.routing.counting import Frequencies, KeyCounter, PackedFrequencies, unpacked
from skytide.routing.frequency import FrequencyAware, KeyRouting
from skytide.routing.hashing import Keys, key_hashes, row_hashes
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

__all__ = [
    "AS",
    "AS_PID",
    "EVEN",
    "KEYS",
    "PB_RR",
    "RATE",
    "STRATEGIES",
    "TB_RR",
    "ByKey",
    "Frequencies",
    "FrequencyAware",
    "Gains",
    "HashRing",
    "KeyCounter",
    "KeyRouting",
    "Keys",
    "LeastLoaded",
    "PackedFrequencies",
    "Partition",
    "Pid",
    "PidLogic",
    "RateAware",
    "RecentSizes",
    "Router",
    "SlotUse",
    "Splitting",
    "key_hashes",
    "row_hashes",
    "slot_utilisation",
    "strategy_of",
    "tuned",
    "unpacked",
]
