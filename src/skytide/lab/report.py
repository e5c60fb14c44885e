"""One page of all experiments that were run."""

import base64
import html
import json
from pathlib import Path

from skytide.errors import InvalidInput

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
table { border-collapse: collapse; width: 100% } td, th { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid #ddd; vertical-align: top }
img { max-width: 100% } .holds { color: #176a2c } .not { color: #a3271b; font-weight: 600 } .notes { color: #555 }
"""


def write_report(out: Path) -> Path:
    """Write `report.html` from the verdicts, tables and pictures below a folder; everything is inside the one file."""
    records = [json.loads(path.read_text()) for path in sorted(out.glob("[A-Z][0-9]*.json"), key=_in_order)]
    if not records:
        raise InvalidInput(value=str(out), reason="no experiment has been run", remedy="run some first: skytide lab run X1")
    page = out / "report.html"
    page.write_text(
        f"<!doctype html><html lang=en><meta charset=utf-8><title>skytide: what the papers measured</title><style>{STYLE}</style>"
        "<h1>What the papers measured, and what was found here</h1>"
        + _summary(records)
        + "".join(_section(record, out) for record in records)
        + "</html>\n"
    )
    return page


def _in_order(path: Path) -> tuple[str, int]:
    """Put X2 before X11."""
    return path.stem[0], int(path.stem[1:])


def _summary(records: list[dict]) -> str:  # type: ignore[type-arg]
    rows = "".join(
        f"<tr><td><a href='#{r['id']}'>{r['id']}</a><td>{_text(r['title'])}<td>{_text(r['source'])}<td>{_word(r['holds'])}<td>{r['seconds']:.0f} s"
        for r in records
    )
    return f"<table><tr><th>id<th>experiment<th>source<th>verdict<th>time{rows}</table>"


def _section(record: dict, out: Path) -> str:  # type: ignore[type-arg]
    claims = "".join(f"<tr><td>{_text(c['paper'])}<td>{_text(c['found'])}<td>{_word(c['holds'])}" for c in record["claims"])
    picture = base64.b64encode((out / f"{record['id']}.png").read_bytes()).decode()
    return (
        f"<h2 id={record['id']}>{record['id']}: {_text(record['title'])} ({_text(record['source'])})</h2>"
        f"<table><tr><th>the paper<th>here<th>verdict{claims}</table>"
        f"<p class=notes>{_text(record['notes'])} Table: {record['id']}.csv.</p><img alt='' src='data:image/png;base64,{picture}'>"
    )


def _word(holds: bool) -> str:
    return "<span class=holds>holds</span>" if holds else "<span class=not>does not hold</span>"


def _text(value: str) -> str:
    return html.escape(str(value))
