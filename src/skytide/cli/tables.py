"""Tables in a terminal."""

from collections.abc import Sequence


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]], after: Sequence[str] = ()) -> None:
    """Print rows below their headings, the first column to the left if it has no heading; `after` is what stands behind each row.

    >>> print_table(("", "changes"), [("mpc", "3"), ("static:4", "12")])
              changes
    mpc             3
    static:4       12
    """
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    for number, row in enumerate((headings, *rows)):
        cells = [
            text.ljust(width) if heading == "" and at == 0 else text.rjust(width)
            for at, (text, width, heading) in enumerate(zip(row, widths, headings, strict=True))
        ]
        print(("  ".join(cells) + (after[number - 1] if after and number else "")).rstrip())
