"""Bad input that needs no Spark to be refused."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.bad_input import INF, NAN, NO_BOOL, NO_LENGTH, NO_NUMBER, NO_SPAN, NO_WHOLE, Case, Opaque, each

import skytide
from skytide import diff, high, low
from skytide.cli import main
from skytide.control import controller_of
from skytide.errors.checks import brief
from skytide.forecasting import Holt, HoltWinters
from skytide.lateness import DropRatio, FixedSlack
from skytide.queries import KDominant, Levels, Skyband, Skyline, TopDelta, TopK, parse_preferences
from skytide.routing import strategy_of
from skytide.routing.panes import LeastLoaded
from skytide.routing.pid import Gains, Pid
from skytide.spark.session.cluster import LocalCluster
from skytide.spark.session.local import local_session
from skytide.windows import duration_us, sliding

TWO = low("a") * low("b")
ROWS = pa.schema([("a", pa.int64()), ("b", pa.int64()), ("LEVEL", pa.int64()), ("K", pa.int64()), ("word", pa.string())])


def fields(kind: Any, field: str, values: list[Any], **others: Any) -> list[Case]:
    """Return cases of one field of a configuration."""
    return each(f"{kind.__name__}.{field}", lambda value: kind(**{**others, field: value}), values, "")


NO_COLUMN: list[Any] = [
    None,
    "",
    "  ",
    3,
    0,
    1.5,
    NAN,
    True,
    b"a",
    ["a"],
    ("a", "b"),
    {"a"},
    {},
    range(3),
    (x for x in "ab"),
    int,
    low("a"),
]
CASES = [
    *each("low", low, NO_COLUMN, "what="),
    *each("high", high, NO_COLUMN, "what="),
    *each("diff", diff, NO_COLUMN, "what="),
    *each("pareto", lambda other: low("a") * other, [None, "b", 3, [low("b")], Opaque()], "not a preference"),
    *each("prioritised", lambda other: low("a") & other, [None, "b", 3, [low("b")], Opaque()], "not a preference"),
    *each("parse", parse_preferences, [None, "", " ", 3, b"a MIN", ["a MIN"], "a", "MIN", "a MIN,", ",a MIN", "a LOW", "a MIN b MAX",
        "a.b MIN", "`a MIN", "a MIN a MAX", "city DIFF", "a MIN, a MAX", Opaque()], ""),
    *each("Skyline.nulls", lambda nulls: Skyline(TWO, nulls), [None, "", "ERROR", "keep", 3, True, [], ["drop"], Opaque()], "nulls="),
    *each("Skyline.distinct", lambda distinct: Skyline(TWO, "error", distinct), NO_BOOL, "distinct="),
    *each("Skyband.k", lambda k: Skyband(TWO, k=k), [*NO_WHOLE, None], "k="),
    *each("Levels.up_to", lambda up_to: Levels(TWO, up_to=up_to), NO_WHOLE, "up_to="),
    *each("KDominant.k", lambda k: KDominant(TWO, k=k), [*NO_WHOLE, None, 3], "k="),
    *each("TopDelta.delta", lambda delta: TopDelta(TWO, delta=delta), [*NO_WHOLE, None], "delta="),
    *each("TopK.k", lambda k: TopK(low("a"), k=k), [*NO_WHOLE, None], "k="),
    Case("TopK of two scores", lambda: TopK(TWO, k=1), "one score"),
    *each("columns", lambda query: query.check(ROWS), [
        Skyline(low("c")), Skyline(low("A")), Skyline(low("word")), Skyband(high("word")), TopK(low("c"), k=1), Levels(TWO), TopDelta(TWO),
    ], ""),
    *each("duration", lambda value: duration_us(value, "window"), NO_LENGTH, "window="),
    *each("duration", lambda value: duration_us(value, "window"), [timedelta(0), timedelta(days=-1), timedelta.max], "window="),
    *each("slide", lambda value: sliding("1 s", value), [value for value in NO_LENGTH if value is not None], "slide="),
    Case("slide longer than window", lambda: sliding("1 s", "2 s"), "longer than length"),
    Case("too many windows at once", lambda: sliding("1 day", "1 us"), "each tuple would belong to"),
    *fields(DropRatio, "ratio", [*NO_NUMBER, None, 0, 1, -0.1, 1.1, INF]),
    *fields(FixedSlack, "delay", NO_SPAN),
    *fields(skytide.Guard, "minimum", [*NO_WHOLE, None, 9]),
    *fields(skytide.Guard, "maximum", [*NO_WHOLE, None]),
    *fields(skytide.Guard, "step_factor", [*NO_NUMBER, None, 1, 0.5, -2]),
    *fields(skytide.Guard, "scale_down_after", NO_SPAN),
    *fields(skytide.Guard, "cool_down", NO_SPAN),
    *fields(skytide.Guard, "stale_after", NO_SPAN),
    *fields(skytide.Guard, "notice_no_help", NO_BOOL),
    *fields(skytide.Guard, "maintenance", [None, "02:00", 3, ("02:00", "03:00"), (("02:00",),), (("2", "3"),), ((1, 2),), (("25:00", "26:00"),)]),
    *fields(skytide.controllers.Static, "workers", [*NO_WHOLE, None]),
    *fields(skytide.controllers.UtilisationThresholds, "theta_max", [*NO_NUMBER, None, 0.8, -1]),
    *fields(skytide.controllers.UtilisationThresholds, "theta_min", [*NO_NUMBER, None, 0.95, -1]),
    *fields(skytide.controllers.Congestion, "congestion", [*NO_NUMBER, None, 0, 1]),
    *fields(skytide.controllers.Congestion, "sensitivity", [*NO_NUMBER, None, 0, 1]),
    *fields(skytide.controllers.Fuzzy, "maximum", [*NO_WHOLE, 1]),
    *fields(skytide.controllers.LocalThresholds, "lower", [*NO_NUMBER, None, 0, 0.7]),
    *fields(skytide.controllers.LocalThresholds, "intervals", [*NO_WHOLE, None]),
    *fields(skytide.controllers.GlobalThresholds, "upper", [*NO_NUMBER, None, 2]),
    *fields(skytide.controllers.GlobalThresholds, "grace", NO_SPAN),
    *fields(skytide.controllers.Sarsa, "impact", [*NO_NUMBER, None, -1, 2]),
    *fields(skytide.controllers.Sarsa, "duration", [*NO_NUMBER, None, 0, INF]),
    *fields(skytide.controllers.Mpc, "horizon", [*NO_WHOLE, None]),
    *fields(skytide.controllers.Mpc, "coverage", [*NO_NUMBER, None, 1, -0.1]),
    *fields(skytide.controllers.Mpc, "headroom", [*NO_NUMBER, None, 1, -0.1]),
    *fields(skytide.controllers.Mpc, "alpha", [*NO_NUMBER, None, 0, INF]),
    *fields(skytide.controllers.Mpc, "gamma", [*NO_NUMBER, None, -1]),
    *fields(skytide.controllers.Mpc, "bound_s", [*NO_NUMBER, 0, -1, INF]),
    *fields(skytide.controllers.Mpc, "maximum", NO_WHOLE),
    *fields(skytide.controllers.Mpc, "power", NO_BOOL, maximum=4),
    *fields(skytide.controllers.Mpc, "forecaster", [None, 3, "holt", Holt]),
    *fields(skytide.controllers.Mpc, "frequencies_ghz", [(), 3, "fast", (NAN,), ("1",), (0,)]),
    *each("Mpc.latency", skytide.controllers.Mpc.latency, NO_LENGTH, "bound="),
    *fields(Holt, "level", [*NO_NUMBER, None, 0, 2]),
    *fields(HoltWinters, "period", [*NO_WHOLE, None, 1]),
    *each("controller", controller_of, [None, "", "clever", "mpc:soon", "static:0", "static:x", "static:" + "9" * 50, 3, []], ""),
    *each("splitting", strategy_of, [None, "", "tb_rr", 3, [], {}, LeastLoaded, Opaque()], "splitting="),
    *fields(LeastLoaded, "pid", [3, "pid", Pid, [], False]),
    *fields(Pid, "setpoint", [*NO_NUMBER, None, 0, -1, INF]),
    *fields(Pid, "gains", [3, "some", (1, 2, 3)]),
    *fields(Pid, "low", [*NO_NUMBER, None, 0, 101]),
    *fields(Pid, "relay_step", [*NO_NUMBER, None, 0, 1]),
    *fields(Pid, "relay_samples", [*NO_WHOLE, None]),
    *fields(Gains, "kp", [*NO_NUMBER, None, -1, INF], ki=0.0, kd=0.0),
    *fields(skytide.workload, "rate", [*NO_NUMBER, None, 0, -1, INF, 1e30]),
    *fields(skytide.workload, "arrivals", [None, "", "sometimes", 3, []], rate=10),
    *fields(skytide.workload, "dispersion", [*NO_NUMBER, None, 1, -1, INF], rate=10, arrivals="map"),
    *fields(skytide.workload, "steps", [None, "", "x", "1", "0:0", "1:nan", "inf:1", 3, [(1, 2)]], arrivals="steps"),
    *fields(skytide.workload, "hurst", [*NO_NUMBER, None, 0.4, 1], rate=10, arrivals="selfsimilar"),
    *fields(skytide.workload, "on", [*NO_LENGTH, "2 h"], rate=10, arrivals="onoff", off="1 s"),
    *fields(skytide.workload, "series", [None, "", "/nowhere.parquet", 3, b"x"], arrivals="replay"),
    *fields(skytide.workload, "streams", [*NO_WHOLE, None], rate=10, arrivals="constw"),
    *fields(skytide.workload, "delay", [value for value in NO_LENGTH if value is not None], rate=10),
    *fields(skytide.workload, "delays", ["", "never", 3, []], rate=10, delay="1 s"),
    *fields(skytide.workload, "delay_series", ["", "/nowhere.parquet", 3, b"x"], rate=10, delays="replay"),
    *fields(skytide.workload, "late_share", [*NO_NUMBER, None, 0, 1.1, -1], rate=10, delay="1 s"),
    *fields(skytide.workload, "points", [None, "", "round", 3], rate=10),
    *fields(skytide.workload, "dimensions", [*NO_WHOLE, None, 65], rate=10),
    *fields(skytide.workload, "seed", [-1, 1.5, True, None, "0", 10**5000], rate=10),
    *fields(skytide.workload, "tick", [*NO_LENGTH, "2 h"], rate=10),
    *fields(skytide.workload, "partitions", [*NO_WHOLE, None], rate=10),
    *fields(skytide.workload, "pace", [None, "", "slow", 3], rate=10),
    *fields(skytide.workload, "batch", [*(value for value in NO_LENGTH if value is not None), "1 ms"], rate=10),
    *fields(skytide.workload, "duration", [*(value for value in NO_LENGTH if value is not None), "1 ms"], rate=10),
    *fields(skytide.workload, "start", ["", "soon", -1, 2**70, True, 1.5, "9" * 50, [], Opaque()], rate=10),
    *fields(LocalCluster, "cores", [*NO_WHOLE, None]),
    *fields(LocalCluster, "hosts", [*NO_WHOLE, None, 9]),
    *each("LocalCluster.settings", lambda memory: LocalCluster.settings(LocalCluster.__new__(LocalCluster), memory), [None, "", "0m", "much", 512, "1"], "memory="),
    *each("local_session.name", local_session, [None, "", 3, []], "name="),
    *each("local_session.cores", lambda cores: local_session("x", cores=cores), [*NO_WHOLE, None], "cores="),
    Case("local_session.settings", lambda: local_session("x", **{"spark.ui.enabled": None}), "spark.ui.enabled="),  # type: ignore[arg-type]
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_bad_input_is_refused_with_value_reason_and_remedy(case: Case) -> None:
    case.refused()


COMMANDS = [
    (["run", "--seconds", "-1"], "--seconds -1"), (["run", "--seconds", "nan"], "--seconds nan"), (["run", "--rate", "0"], "--rate 0"),
    (["run", "--rate", "nan"], "--rate nan"), (["run", "--rate", "1e30"], "tuples per second"), (["run", "--out", "/dev/null/x"], "--out"),
    (["hotels", "--out", "/dev/null/x"], "cannot be written to"), (["hotels", "--out", "/dev/null"], "cannot be written to"),
    (["lab", "run", "X99"], "there is no such"), (["lab", "run", "X1", "--out", "/dev/null/x"], "cannot be written to"),
    (["lab", "report", "--out", "/dev/null/x"], "cannot be written to"), (["lab", "calibrate", "magic"], "not known"),
    (["replay", "/nowhere.parquet", "--controller", "mpc"], "cannot be read"),
    (["replay", "/nowhere.parquet", "--controller", "clever"], "there is no such"),
    (["replay", "/nowhere.parquet", "--controller", "mpc", "--executors", "8:1"], "--executors 8:1"),
    (["replay", "/nowhere.parquet", "--controller", "mpc", "--picture", "/dev/null/x.png"], "there is no folder /dev/null"),
    (["submit", "/nowhere.py"], "there is no such file"),
    (["submit", "--controller", "clever", __file__], "there is no such"), (["submit", "--interval", "often", __file__], "--interval often"),
    (["submit", "--executors", "0:3", __file__], "--executors 0:3"), (["submit", "--store", "/dev/null/x", __file__], "cannot be written to"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "part"), COMMANDS, ids=lambda value: value if isinstance(value, str) else " ".join(value))
def test_commands_refuse_bad_input_in_a_line(
    arguments: list[str], part: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 1
    output = capsys.readouterr()
    assert output.err.startswith("skytide: ") and output.err.count("\n") == 1 and part in output.err
    assert not (tmp_path / "out").exists() or not any((tmp_path / "out").rglob("*.parquet"))


def test_there_are_hundreds_of_cases() -> None:
    assert len(CASES) + len(COMMANDS) > 600


def test_errors_tell_no_data_of_others() -> None:
    assert brief(pa.table({"secret": ["x"]})) == "a Table"
    assert brief([Opaque()]) == "a list" and brief({"secret": "x"}) == "a dict"
    assert len(brief("x" * 10**6)) < 200


def test_rows_are_told_only_if_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pa.table({"a": [1, None], "name": ["secret", "very secret"]})
    monkeypatch.delenv("SKYTIDE_SHOW_ROWS", raising=False)
    with pytest.raises(skytide.InvalidInput) as caught:
        Skyline(low("a")).pane(rows)
    assert "NULL in column a, in 1 of 2 rows" in str(caught.value) and "secret" not in str(caught.value)
    monkeypatch.setenv("SKYTIDE_SHOW_ROWS", "1")
    with pytest.raises(skytide.InvalidInput, match="very secret"):
        Skyline(low("a")).pane(rows)


@pytest.mark.parametrize("name", ["a.b", "a b", "ä ö", "价格", "a`b", "it's", 'say "x"', "select", "a,b", "1st", " a "])
def test_odd_names_work_in_texts_of_preferences(name: str) -> None:
    quoted = name.replace("`", "``")
    rows = pa.table({name: [2, 1, 3], "other": [1, 2, 3]})
    assert Skyline(parse_preferences(f"`{quoted}` MIN, other MAX")).window(rows)[name].to_pylist() == [1, 3]
