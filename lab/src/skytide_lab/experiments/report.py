"""One page with all experiments that were run, in a single file."""

import base64
import csv
import html
import json
from pathlib import Path
from typing import Any

from skytide.errors import InvalidInput
from skytide_lab.experiments.catalogue import MODULES
from skytide_lab.experiments.page_style import STYLE
from skytide_lab.experiments.verdict import Verdict

Record = dict[str, Any]
SHOWN_ROWS, SHORT = 200, 220
CLASSES = {Verdict.HOLDS: "holds", Verdict.PART: "part", Verdict.NOT: "not", Verdict.OPEN: "open"}
SIGNS = {Verdict.HOLDS: "✓", Verdict.PART: "◐", Verdict.NOT: "✗", Verdict.OPEN: "?"}


def write_report(out: Path) -> Path:
    """Write `report.html` from the verdicts, tables and pictures in a folder, and return its path."""
    records = [json.loads((out / f"{name}.json").read_text()) for name in MODULES if (out / f"{name}.json").exists()]
    if not records:
        raise InvalidInput(value=str(out), reason="no experiment has been run", remedy="run some first: skytide lab run X1")
    page = out / "report.html"
    page.write_text(
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>skytide: what the papers measured</title><style>{STYLE}</style></head><body><main>"
        "<h1>What the papers measured, and what was found here</h1>"
        + _introduction(records)
        + _summary(records)
        + "".join(_section(record, out) for record in records)
        + "</main></body></html>\n"
    )
    return page


def _introduction(records: list[Record]) -> str:
    counts = {verdict: sum(record["verdict"] == verdict for record in records) for verdict in Verdict}
    text = ", ".join(f"{count} {_badge(verdict)}" for verdict, count in counts.items() if count)
    return (
        f"<p>{len(records)} experiments: {text}. An experiment holds if all of its claims do; claims marked (ours) are in no paper. "
        "Random ones show means over several seeds, ± half the width of the 95 % confidence interval. The papers P0 to P4 are listed in docs/papers.md.</p>"
    )


def _summary(records: list[Record]) -> str:
    rows = "".join(
        f'<tr><td><a href="#{r["id"]}">{r["id"]}</a></td><td>{_text(r["title"])}<div class="source">{_text(r["source"])}</div></td>'
        f"<td>{_badge(r['verdict'])}</td><td>{_text(_cut(r['found']))}</td><td class='number'>{r['seconds']:.0f} s</td></tr>"
        for r in records
    )
    head = "<tr><th>id</th><th>experiment</th><th>verdict</th><th>finding</th><th>work</th></tr>"
    return f'<div class="wide"><table class="summary stacks"><thead>{head}</thead><tbody>{rows}</tbody></table></div>'


def _section(record: Record, out: Path) -> str:
    name = record["id"]
    picture = base64.b64encode((out / f"{name}.png").read_bytes()).decode()
    claims = "".join(
        f"<tr><td>{_text(claim['paper'])}</td><td>{_text(claim['found'])}"
        + (f'<div class="why">{_text(claim["why"])}</div>' if claim["why"] else "")
        + f"</td><td>{_badge(claim['verdict'])}</td></tr>"
        for claim in record["claims"]
    )
    head = "<tr><th>the paper</th><th>here</th><th>verdict</th></tr>"
    return (
        f'<section id="{name}"><h2>{name}: {_text(record["title"])} {_badge(record["verdict"])}</h2>'
        f'<p class="source">{_text(record["source"])} · <a href="#top" onclick="scrollTo(0,0);return false">back to the table</a></p>'
        f'<p class="question">{_text(record["question"])}</p>'
        f'<div class="beside"><figure><img alt="{_text(record["title"])}" src="data:image/png;base64,{picture}"></figure>'
        f'<div class="wide"><table class="claims stacks"><thead>{head}</thead><tbody>{claims}</tbody></table></div></div>'
        + (f'<p class="notes"><b>What differs, and why.</b> {_text(record["notes"])}</p>' if record["notes"] else "")
        + _rows(out / f"{name}.csv")
        + "</section>"
    )


def _rows(path: Path) -> str:
    """Return the table of an experiment, or its first rows if there are many."""
    with path.open(newline="") as file:
        names, *rows = csv.reader(file)
    head = "".join(f"<th>{_text(name.replace('_', ' '))}</th>" for name in names)
    body = "".join("<tr>" + "".join(f"<td>{_text(_number(value))}</td>" for value in row) + "</tr>" for row in rows[:SHOWN_ROWS])
    more = f"; the first {SHOWN_ROWS} are shown" if len(rows) > SHOWN_ROWS else ""
    return (
        f'<details><summary>{len(rows):,} rows, as in {path.name}{more}</summary><div class="wide"><table class="data">'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div></details>"
    )


def _number(value: str) -> str:
    try:
        number = float(value)
    except ValueError:
        return value
    return value if number.is_integer() and "." not in value else f"{number:.4g}"


def _cut(text: str) -> str:
    return text if len(text) <= SHORT else text[:SHORT].rsplit(" ", 1)[0] + " …"


def _badge(verdict: str) -> str:
    known = Verdict(verdict)
    return f'<span class="badge {CLASSES[known]}">{SIGNS[known]} {known}</span>'


def _text(value: object) -> str:
    return html.escape(str(value))
