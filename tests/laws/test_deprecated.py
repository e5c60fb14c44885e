"""Names of before still work, and say which name has taken their place."""

from typing import Any

import pytest

from skytide.records import Allocation, Evaluation, Observation, Status

SEEN = Evaluation(Observation(60, 10, Allocation(2), 900, 800, utilisation=1.1), 1_000, None, demand_ratio=1.2, lead_s=6)


@pytest.mark.parametrize(
    ("record", "old", "new"),
    [(Status(trigger_share=0.4), "status().utilisation", "trigger_share"), (SEEN, "Evaluation.utilisation", "demand_ratio")],
)
def test_a_field_of_before_is_the_new_one(record: Any, old: str, new: str) -> None:
    with pytest.warns(DeprecationWarning, match=rf"{old.replace('(', '.').replace(')', '.')} is deprecated; use .*{new}"):
        assert record.utilisation == getattr(record, new)
