"""Law: whatever error a running query can end with, a test follows its remedy. A new error needs a line here."""

import ast
from collections.abc import Iterator
from pathlib import Path

import skytide

ROOT = Path(skytide.__file__).parent
TESTS = Path(__file__).parents[1]
PACKAGES = ("spark/engine", "spark/sinks", "spark/checkpoint", "batch", "queries", "keyed", "lateness")
ERRORS = {"InvalidInput", "SkytideError"}
ROWS, CHECKPOINTS = "bad_input/test_remedies.py", "bad_input/test_remedies_of_checkpoints.py"

FOLLOWED = {
    "keyed/collected:Collected.add": (ROWS, "test_operators_are_mended"),
    "keyed/collected:Collected.table": (ROWS, "test_operators_are_mended"),
    "keyed/operator:Operator._failed": (ROWS, "test_operators_are_mended"),
    "keyed/operator:Operator.packed": (ROWS, "test_operators_are_mended"),
    "keyed/operator:Operator.process_windows": (ROWS, "test_an_operator_on_whole_windows_is_mended"),
    "keyed/operator:Operator.unpacked": (ROWS, "test_an_upgrade_is_mended"),
    "keyed/tagged:check_keys": (ROWS, "test_rows_without_a_key"),
    "queries/aggregate:Result.of": ("exactly_once/test_identity.py", "test_a_window_without_a_result_does_not_end_the_checkpoint"),
    "queries/columns:without_missing": (ROWS, "test_values_that_cannot_be_compared"),
    "queries/sums:overflows": (ROWS, "test_a_sum_of_a_key_that_overflows"),
    "spark/checkpoint/owner:taken_over": (CHECKPOINTS, "test_a_checkpoint_that_another_query_took_over"),
    "spark/checkpoint/spark_logs:SparkLogs.check": (
        "exactly_once/test_back.py",
        "test_going_back_before_what_spark_put_together_is_refused_if_that_loses_files",
    ),
    "spark/checkpoint/store:Store._fall_back": (CHECKPOINTS, "test_manifests_that_cannot_be_read"),
    "spark/checkpoint/store:Store._load": (CHECKPOINTS, "test_manifests_that_cannot_be_read"),
    "spark/checkpoint/store:Store.before": (CHECKPOINTS, "test_notes_of_spark_that_do_not_match"),
    "spark/sinks/roles:Sinks._check_unsent": (
        "exactly_once/test_changed_sinks.py",
        "test_results_that_wait_in_a_folder_are_not_left_there",
    ),
    "spark/sinks/base:stage_rows": ("answers/test_runner.py", "test_rows_that_a_sink_stages_need_a_name"),
    "spark/sinks/parquet:Parquet._show": (CHECKPOINTS, "test_staged_results_that_are_gone"),
}
"""Where an error is made that a running query can end with, and the test that follows its remedy."""

AT_THE_CALL = {
    "keyed/operator:Operator.__init__",
    "keyed/operator:Operator.schema",
    "keyed/ordering:check_order",
    "keyed/quotes:_check_type",
    "keyed/quotes:check_columns",
    "keyed/rebalance:_checked",
    "keyed/table:RoutingTable.__post_init__",
    "keyed/work:KeyedStep.of",
    "keyed/windows:CountWindows.__post_init__",
    "lateness/slack:DropRatio.__post_init__",
    "queries/aggregate:Aggregate.__post_init__",
    "queries/aggregate:Aggregate.check",
    "queries/columns:missing_column",
    "queries/described:_Described._pickled",
    "queries/functions/function:refused_type",
    "queries/measure:Measure.parse",
    "queries/parse:parse_preferences",
    "queries/preference_query:PreferenceQuery.__post_init__",
    "queries/preference_query:PreferenceQuery.check",
    "queries/preference_query:_check_column",
    "queries/preference_query:plain_dimensions",
    "queries/preferences:_column",
    "queries/preferences:_preference",
    "queries/preferences:combine",
    "queries/sketches:Distinct.kind",
    "queries/sketches:Quantile.__post_init__",
    "queries/sketches:Quantile.kind",
    "queries/sketches:Quantile.of_arguments",
    "queries/top_k:TopK.__post_init__",
    "spark/checkpoint/back:_Others.check",
    "spark/checkpoint/back:_alone",
    "spark/checkpoint/back:_opened",
    "spark/checkpoint/back:_state_of",
    "spark/checkpoint/files:_file_system",
    "spark/checkpoint/owner:Owner.__init__",
    "spark/checkpoint/place:_check_executors_see",
    "spark/checkpoint/place:_check_spark_sees",
    "spark/checkpoint/place:_not_sparks",
    "spark/checkpoint/place:folder_text",
    "spark/checkpoint/place:checkpoint_place",
    "spark/checkpoint/store:Store._check_owner",
    "spark/engine/cache:bytes_of",
    "spark/engine/identity:check_versions",
    "spark/engine/identity:_another",
    "spark/engine/identity:_another_order",
    "spark/engine/identity:check_same",
    "spark/checkpoint/folder:OwnedFolder.check",
    "spark/checkpoint/folder:OwnedFolder.claim",
    "spark/checkpoint/folder:_refuse_copies",
    "spark/sinks/parquet:codec_of",
    "spark/sinks/base:needed_path",
    "spark/sinks/base:refuse_ignored",
    "spark/sinks/format:check_known",
    "spark/sinks/function:Function.__init__",
    "spark/sinks/function:made_sink",
    "spark/sinks/memory:Memory.open",
    "spark/sinks/registry:side_sink_of",
    "spark/sinks/registry:sink_of",
}
"""Where errors are made that no running query ends with: they refuse a call, a start or a command, or a wrong use inside skytide."""


def makes_errors(tree: ast.AST, place: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the functions that make errors."""
    for node in ast.iter_child_nodes(tree):
        is_named = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        inside = (*place, node.name) if is_named else place
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ERRORS | {"refused"}:
            yield ".".join(place)
        yield from makes_errors(node, inside)


def test_no_error_is_forgotten() -> None:
    found = {
        f"{file.relative_to(ROOT).with_suffix('')}:{function}"
        for package in PACKAGES
        for file in (ROOT / package).rglob("*.py")
        for function in makes_errors(ast.parse(file.read_text()))
    }
    known = {*FOLLOWED, *AT_THE_CALL}
    assert found - known == set()  # say whether a running query can end with it, and if so, test its remedy
    assert known - found == set()  # no longer there
    assert not FOLLOWED.keys() & AT_THE_CALL


def test_the_tests_are_there() -> None:
    for file, name in set(FOLLOWED.values()):
        assert f"def {name}(" in (TESTS / file).read_text()
