"""What people want of streams: names that no stream has are said, and a suspension is kept."""

import os
from pathlib import Path

from fleet_model import Asked, status, suspend, write


def test_a_suspension_is_kept_though_nothing_was_let_in_since(asked: Asked) -> None:
    write(asked, "a", 1)
    write(asked, "b", 1)
    asked.all()
    suspend(asked, {"a": True})
    asked.all()
    os.remove(Path(asked.settings["channel"], "control.json"))  # the next process has a channel of its own
    asked.start()
    write(asked, "a", 2)
    asked.all()
    assert asked.given == {"a": [1], "b": [1]}
    assert status(asked)["suspended"] == 1


def test_names_that_no_stream_has_are_said_until_one_comes(asked: Asked) -> None:
    write(asked, "sensor7", 1)
    suspend(asked, {"sensor_7": True})
    asked.all()
    assert asked.given == {"sensor7": [1]}
    assert status(asked)["unknown"] == ["sensor_7"]
    write(asked, "sensor_7", 2)
    asked.all()
    assert asked.given == {"sensor7": [1]}
    assert (status(asked)["unknown"], status(asked)["suspended"]) == ([], 1)
