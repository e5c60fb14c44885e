"""`skytide checkpoint`: the states that a query can go back to."""

from datetime import UTC, datetime

from skytide.spark.checkpoint.back import go_back, states_of

COLUMNS = ("sequence", "batch", "written", "windows out", "newest event", "size")


def show_list(folder: str) -> int:
    """Print the states of a checkpoint."""
    rows = [
        (str(row.sequence), str(row.batch), _time(row.written_us), f"{row.windows_out:,}", _time(row.newest_us), _size(row.size))
        for row in states_of(folder)
    ]
    widths = [max(map(len, column)) for column in zip(COLUMNS, *rows, strict=True)]
    for row in (COLUMNS, *rows):
        print("  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)))
    return 0


def back(folder: str, sequence: int) -> int:
    """Go back to a state, and print how the query continues."""
    go_back(folder, sequence)
    print(f"{folder} is back at sequence {sequence}. The query continues from there when it starts again, with the same numbers.")
    return 0


def _time(time_us: int | None) -> str:
    return "" if time_us is None else datetime.fromtimestamp(time_us / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _size(size: int) -> str:
    return f"{size / 1e6:,.1f} MB" if size >= 1e6 else f"{size / 1e3:,.1f} kB"
