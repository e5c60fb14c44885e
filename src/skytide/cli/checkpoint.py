"""`skytide checkpoint`: the states that a query can go back to."""

from skytide.cli.tables import print_table
from skytide.records.printing import moment
from skytide.spark.checkpoint.back import go_back, states_of

COLUMNS = ("sequence", "batch", "written", "windows out", "newest event", "size")
UNREACHABLE = "unreachable"


def show_list(folder: str) -> int:
    """Print the states of a checkpoint, and which of them cannot be gone back to."""
    states = states_of(folder)
    rows = [
        (str(row.sequence), str(row.batch), _time(row.written_us), f"{row.windows_out:,}", _time(row.newest_us), _size(row.size))
        for row in states
    ]
    marks = ["" if row.reachable else f"  {UNREACHABLE}" for row in states]
    print_table(COLUMNS, rows, marks)
    if any(marks):
        print(f"{UNREACHABLE}: Spark's notes, or a fleet's, no longer go back that far, so `skytide checkpoint back` refuses it")
    return 0


def back(folder: str, sequence: int) -> int:
    """Go back to a state, and print how the query continues."""
    went = go_back(folder, sequence)
    print(f"{folder} is back at sequence {sequence}. The query continues from there when it starts again, with the same numbers.")
    if went.removed:
        print(f"Later results are removed from: {', '.join(map(str, went.removed))}.")
    if any(sink.uri for sink in went.left):
        print(f"The next start removes them from: {', '.join(str(sink) for sink in went.left if sink.uri)}, if it writes there.")
    if any(not sink.uri for sink in went.left):
        print(
            f"These sinks still have them, and may have them twice then: {', '.join(str(sink) for sink in went.left if not sink.uri)}."
        )
    if not went.known:
        print(
            "An earlier version wrote this checkpoint, so its sinks are not known. The next start removes later results from folders that it writes to; other sinks may have them twice then."
        )
    return 0


def _time(time_us: int | None) -> str:
    return "" if time_us is None else f"{moment(time_us - time_us % 1_000_000)} UTC"


def _size(size: int) -> str:
    return f"{size / 1e6:,.1f} MB" if size >= 1e6 else f"{size / 1e3:,.1f} kB"
