import pickle

import pytest

from skytide.errors import InvalidInput, SkytideError


def error() -> InvalidInput:
    return InvalidInput(value='slide="3 s"', reason='longer than window="2 s"', remedy="choose slide <= window")


def test_says_value_reason_and_remedy() -> None:
    assert str(error()) == 'slide="3 s": longer than window="2 s"; choose slide <= window'


def test_can_be_caught_as_ours_and_as_a_value_error() -> None:
    for kind in (SkytideError, ValueError):
        with pytest.raises(kind):
            raise error()


class Special(InvalidInput):
    pass


@pytest.mark.parametrize("kind", [InvalidInput, Special])
def test_survives_the_way_back_from_a_spark_worker(kind: type[InvalidInput]) -> None:
    sent = kind(value="v", reason="r", remedy="m")
    received = pickle.loads(pickle.dumps(sent))
    assert type(received) is kind
    assert (str(received), vars(received)) == (str(sent), vars(sent))
