"""Preferences: how they read, what they refuse, and that their chains mean what the definitions say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import reference

from skytide.errors import InvalidInput
from skytide.queries import Preference, combine, diff, high, low, parse_preferences
from skytide.queries.preferences import Attribute, Chain, Pareto, Prioritised, chains_of, groups_of

COLUMNS = ("a", "b", "c", "d", "e")


@st.composite
def preferences(draw: st.DrawFn) -> Preference:
    """Draw any tree of * and & over different columns."""
    columns = draw(st.permutations(COLUMNS))[: draw(st.integers(1, len(COLUMNS)))]
    parts: list[Preference] = [Attribute(column, draw(st.sampled_from(["low", "high"]))) for column in columns]
    while len(parts) > 1:
        i = draw(st.integers(0, len(parts) - 2))
        left, right = parts[i], parts[i + 1]
        parts[i : i + 2] = [left * right if draw(st.booleans()) else left & right]
    return parts[0]


ROWS = st.fixed_dictionaries({column: st.integers(0, 2) for column in COLUMNS})


@given(preferences(), ROWS, ROWS)
def test_chains_mean_the_preference(preference: Preference, a: reference.Row, b: reference.Row) -> None:
    def value(chain: Chain, row: reference.Row) -> list[int]:
        return [-row[part.what] if part.kind == "high" else row[part.what] for part in chain]

    chains = chains_of(preference)
    by_chains = all(value(c, a) <= value(c, b) for c in chains) and any(value(c, a) < value(c, b) for c in chains)
    assert by_chains == reference.better(preference, a, b)


@given(preferences())
def test_a_preference_reads_as_it_is_written(preference: Preference) -> None:
    assert eval(repr(preference), {"low": low, "high": high, "diff": diff}) == preference


@given(preferences(), ROWS, ROWS, ROWS)
def test_better_is_a_strict_order(preference: Preference, a: reference.Row, b: reference.Row, c: reference.Row) -> None:
    assert not reference.better(preference, a, a)
    if reference.better(preference, a, b):
        assert not reference.better(preference, b, a)
        if reference.better(preference, b, c):
            assert reference.better(preference, a, c)


def test_listing_means_pareto() -> None:
    assert combine((low("a"), high("b"), diff("c"))) == low("a") * high("b") * diff("c")
    assert combine((low("a") & low("b"), high("c"))) == (low("a") & low("b")) * high("c")
    assert groups_of(combine((low("a"), diff("c")))) == ("c",)
    assert isinstance(low("a") * low("b") & low("c"), Prioritised)
    assert isinstance(low("a") * (low("b") & low("c")), Pareto)


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ((), "nothing says which rows are better"),
        ((diff("city"),), "nothing says which rows are better"),
        ((low("price"), high("price")), "low('price') and high('price')"),
        ((low("price"), low("price")), "cannot be preferred twice"),
        ((low("price") & high("price"),), "cannot be preferred twice"),
        ((low("price") & diff("city"),), "has no priority"),
        ((None,), "not a preference; say what is better, for instance low('price')"),
    ],
)
def test_what_makes_no_sense_is_refused(given_: tuple[object, ...], message: str) -> None:
    with pytest.raises(InvalidInput) as error:
        combine(given_)
    assert message in str(error.value)


def test_combining_with_something_else_is_refused() -> None:
    with pytest.raises(InvalidInput, match="not a preference"):
        low("a") * "b"  # type: ignore[operator]


def test_sql_text() -> None:
    assert parse_preferences("price MIN, stars max , `the city` DIFF") == low("price") * high("stars") * diff("the city")
    with pytest.raises(InvalidInput, match="preferences='': not a text, or an empty one"):
        parse_preferences("")
    for wrong in ("price", "price LOW", "price MIN stars MAX", "price MIN,"):
        with pytest.raises(InvalidInput, match="write columns with MIN, MAX or DIFF"):
            parse_preferences(wrong)


def test_a_bare_name_means_high_as_it_does_for_a_top_k() -> None:
    assert combine(("stars",)) == high("stars")
    assert combine((low("price"), "stars")) == low("price") * high("stars")
