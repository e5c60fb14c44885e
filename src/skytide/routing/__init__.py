"""Pure decisions on where tuples go: to which of the slots of the pane level."""

from skytide.routing.choosing import Choice, Chooser, Costs, Measured, choose
from skytide.routing.counting import Frequencies, KeyCounter, PackedFrequencies, unpacked
from skytide.routing.frequency import FrequencyAware, KeyRouting
from skytide.routing.hashing import Keys, key_hashes, row_hashes
from skytide.routing.owners import Owners, PanePlan, just_enough
from skytide.routing.panes import (
    AS,
    AS_PID,
    AUTO,
    EVEN,
    IN_PLACE,
    KEYS,
    PB_RR,
    RATE,
    STRATEGIES,
    TB_RR,
    Auto,
    ByKey,
    LeastLoaded,
    RateAware,
    strategy_of,
)
from skytide.routing.pid import Gains, Pid, PidLogic, tuned
from skytide.routing.recent import RecentPanes
from skytide.routing.ring import HashRing
from skytide.routing.router import Partition, Router, Splitting
from skytide.routing.sizes import RecentSizes
from skytide.routing.utilisation import SlotUse, slot_utilisation

__all__ = [
    "AS",
    "AS_PID",
    "AUTO",
    "EVEN",
    "IN_PLACE",
    "KEYS",
    "PB_RR",
    "RATE",
    "STRATEGIES",
    "TB_RR",
    "Auto",
    "ByKey",
    "Choice",
    "Chooser",
    "Costs",
    "Frequencies",
    "FrequencyAware",
    "Gains",
    "HashRing",
    "KeyCounter",
    "KeyRouting",
    "Keys",
    "LeastLoaded",
    "Measured",
    "Owners",
    "PackedFrequencies",
    "PanePlan",
    "Partition",
    "Pid",
    "PidLogic",
    "RateAware",
    "RecentPanes",
    "RecentSizes",
    "Router",
    "SlotUse",
    "Splitting",
    "choose",
    "just_enough",
    "key_hashes",
    "row_hashes",
    "slot_utilisation",
    "strategy_of",
    "tuned",
    "unpacked",
]
