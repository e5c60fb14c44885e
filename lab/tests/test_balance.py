"""Loads of nodes under skew: short versions of what the laboratory measures (X14, X15)."""

import numpy as np
import pytest

from skytide.routing import PB_RR, RATE, STRATEGIES, Keys, Splitting
from skytide_lab.experiments.x14_balance import ToTheBrim, real_keys
from skytide_lab.sim.balance import jumping_rates, key_ratios, load_ratio, pane_loads, recent_ratios, zipf_keys


@pytest.mark.parametrize("strategy", [*STRATEGIES.values(), ToTheBrim()], ids=[*STRATEGIES, "BRIM"])
def test_all_tuples_of_a_pane_are_given(strategy: Splitting) -> None:
    panes = jumping_rates(50, seed=1)
    assert (pane_loads(panes, strategy, 4).sum(axis=1) == panes).all()


def test_the_rate_jumps_as_asked() -> None:
    rates = jumping_rates(5_000, seed=3)
    calm = rates[rates < 30_000]
    assert 18_000 <= calm.min() < calm.max() <= 22_000
    assert len(calm) / len(rates) == pytest.approx(0.9, abs=0.02)
    assert (rates[rates > 30_000] >= 90_000).all()


def test_rate_aware_panes_are_balanced_better_than_plain_ones() -> None:
    rates = jumping_rates(300, seed=2)
    plain, aware, brim = (pane_loads(rates, strategy, 16) for strategy in (PB_RR, RATE, ToTheBrim()))
    for panes in (16, 60):
        found = [float(recent_ratios(loads, panes)[100:].mean()) for loads in (plain, aware, brim)]
        assert found[0] > 2 * found[1] > 2 * found[2]
    assert (aware > 0).sum() < 1.6 * len(rates) < (brim > 0).sum()


def test_the_ratio_is_that_of_a_slow_loop() -> None:
    loads = pane_loads(jumping_rates(40, seed=4), RATE, 5)
    expected = []
    for end in range(7, 41):
        sums = [sum(int(loads[pane][node]) for pane in range(end - 7, end)) for node in range(5)]
        mean = sum(sums) / 5
        expected.append((sum((each - mean) ** 2 for each in sums) / 5) ** 0.5 / mean)
    assert recent_ratios(loads, 7).tolist() == pytest.approx(expected)


def test_divided_keys_balance_skewed_ones() -> None:
    for exponent in (1.0, 1.5):
        ratios = [key_ratios(zipf_keys(2_000, exponent, 50_000, 2, seed=5), heaviest, 16)[0] for heaviest in (0, 5, 100)]
        assert ratios[0] > 2 * ratios[1] > 2 * ratios[2]
        assert ratios[2] < 0.12
    equal = zipf_keys(2_000, 0.0, 50_000, 2, seed=5)
    assert key_ratios(equal, 100, 16) == pytest.approx(key_ratios(equal, 0, 16), abs=0.02)


def test_keys_by_zipfs_law_come_as_often_as_it_says() -> None:
    keys = Keys.of_hashes(np.concatenate([each.of_tuples() for each in zipf_keys(50, 1.0, 40_000, 3, seed=1)]))
    counts = np.sort(keys.counts())[::-1]
    assert counts[0] / counts[9] == pytest.approx(10, rel=0.1)
    assert counts.sum() == 120_000


def test_loads_of_nothing_have_no_ratio() -> None:
    assert load_ratio(np.zeros(3)) == 0.0


@pytest.mark.parametrize(("name", "least"), [("cabs by 1000 m", 500), ("quotes by exchange", 8)])
def test_real_keys_are_divided_by_the_day(name: str, least: int, data_dir: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKYTIDE_DATA", str(data_dir))
    one, two = real_keys(name, "half a day")
    assert abs(len(one) - len(two)) <= 1
    assert len(one.hashes) > least
    before, after = (key_ratios([one, two], heaviest, 16)[0] for heaviest in (0, 100))
    assert before > 5 * after
