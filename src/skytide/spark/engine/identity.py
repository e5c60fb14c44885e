"""Whether a query is the one that a checkpoint belongs to: exactly, except for expressions over what is kept of panes, and for what ended it."""

import json
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from skytide.errors import InvalidInput
from skytide.keyed import KeyedState, KeyedStep, Operator
from skytide.keyed.operator import VERSION_BYTES
from skytide.keyed.state import STATES
from skytide.keyed.work import STATE
from skytide.queries import Identity
from skytide.queries.described import PYTHON, described
from skytide.queries.identity import strictly, without_expressions
from skytide.spark.checkpoint import Files, Store
from skytide.windows import Windows, shown

Texts = dict[str, str]
QUERY, MEASURES, WINDOWS, RESULTS, CODE, VERSION = "exact query", "measures", "exact windows", "results", "code", "version"
STRICTER, ORDER = "stricter queries", "order"
ANOTHER = "start a changed query with another checkpoint folder"


def texts_of(
    known_as: Identity, windows: Windows, step: KeyedStep | None, time: str, columns: pa.Schema, results: pa.Schema
) -> Texts:
    """Return what must not change between two starts. The first four are for people, and for checkpoints that know no others."""
    of_keys = step.windows if step and step.windows else None
    texts = {
        "query": known_as.readable,
        "windows": of_keys.text if of_keys else f"{shown(windows.length_us)} every {shown(windows.slide_us)}",
        "time": time,
        "columns": _columns(columns),
        QUERY: known_as.exact,
        MEASURES: json.dumps(known_as.measures),
        CODE: known_as.code,
        WINDOWS: described(of_keys or windows).text,
        RESULTS: _columns(results),
    }
    stricter = {STRICTER: json.dumps(known_as.stricter)} if known_as.stricter else {}
    order = {ORDER: ", ".join(map(repr, step.order))} if step and step.order else {}
    return texts | stricter | order | ({VERSION: str(step.operator.version)} if step and step.operator else {})


def check_same(before: Texts, now: Texts, folder: str, *, upgrades: bool = False) -> None:
    """Refuse to continue from the state of another query; an operator that `upgrades` states may have changed with its version."""
    if before and before.get(ORDER) != now.get(ORDER):  # a new checkpoint belongs to no query yet
        raise _another_order(before, now, folder)
    if QUERY not in before:
        _check_readable(before, now, folder)
        return
    if upgrades and before.get(VERSION, now.get(VERSION)) != now.get(VERSION):
        before = before | {name: now[name] for name in (QUERY, CODE)}
    kept = sorted(json.loads(before[MEASURES])) == sorted(json.loads(now[MEASURES]))
    if before[QUERY] not in (now[QUERY], *json.loads(now.get(STRICTER, "[]"))) or not kept:
        raise _another("query", before, now, QUERY if kept else MEASURES, folder)
    if before[CODE] != now[CODE] and _is_comparable(before[CODE]):
        reason = "with other code in its functions"
        raise InvalidInput(value=f"query: {now['query']}", reason=_belongs(folder, reason), remedy=ANOTHER)
    for what, exactly in (("windows", WINDOWS), ("time", "time"), ("columns", "columns")):
        if before[exactly] != now[exactly]:
            raise _another(what, before, now, exactly, folder)
    if before[RESULTS] != now[RESULTS]:
        raise InvalidInput(
            value=f"results: {now[RESULTS]}",
            reason=_belongs(folder, f"with the results {before[RESULTS]}"),
            remedy=f"give them the same names and types, as in CAST(... AS double), or {ANOTHER}",
        )


def check_versions(operator: Operator, keyed: KeyedState, store: Store) -> None:
    """Refuse an operator on keys that cannot read states of other versions, before it writes its own beside them."""
    for version in sorted(state_versions(store.files, keyed) - {operator.version}):
        raise InvalidInput(
            value=f"{operator.name} of version {operator.version}",
            reason=f"the checkpoint {store.folder} has states that its version {version} wrote",
            remedy="add a method upgrade(state, version), go back to that version, or start with another checkpoint folder",
        )


def state_versions(files: Files, keyed: KeyedState) -> set[int]:
    """Return the versions of an operator whose states are stored."""
    versions = set()
    for stored in (chunk for chunk in keyed.chunks if chunk.kind == STATES):
        heads = pc.unique(pc.binary_slice(files.map_table(stored.file)[STATE], 0, VERSION_BYTES))
        versions |= {int.from_bytes(head, "big") for head in heads.to_pylist()}
    return versions


def order_of(before: Texts, now: Texts) -> tuple[int, ...] | None:
    """Return the order in which the measures of the present query were kept, if it is another one."""
    theirs, ours = (json.loads(texts.get(MEASURES, "[]")) for texts in (before, now))
    if not theirs or theirs == ours:
        return None
    places = list(range(len(ours)))
    return tuple(places.pop(next(at for at, place in enumerate(places) if ours[place] == measure)) for measure in theirs)


def _check_readable(before: Texts, now: Texts, folder: str) -> None:
    """Compare with a checkpoint that has only what people read."""
    for what in ("query", "windows", "time", "columns"):
        theirs, ours = (without_expressions(text) for text in (before.get(what, now[what]), now[what]))
        if theirs not in (ours, strictly(ours)):
            raise _another(what, before, now, what, folder)


def _is_comparable(code: str) -> bool:
    """Return whether functions were compiled by this version of Python."""
    return all(number == PYTHON for number in code.split()[::2])


def _another(what: str, before: Texts, now: Texts, exactly: str, folder: str) -> InvalidInput:
    seen = what if before[what] != now[what] else exactly
    return InvalidInput(value=f"{what}: {now[seen]}", reason=_belongs(folder, f"with {before[seen]}"), remedy=ANOTHER)


def _another_order(before: Texts, now: Texts, folder: str) -> InvalidInput:
    theirs, ours = (f"order=({texts[ORDER]},)" if ORDER in texts else "no order" for texts in (before, now))
    reason = _belongs(folder, f"with {theirs} of tuples with equal times")
    again = f"pass {theirs} to skytide.stream again" if ORDER in before else "leave order= out"
    return InvalidInput(value=ours, reason=reason, remedy=f"{again}, or {ANOTHER}")


def _belongs(folder: str, to: str) -> str:
    return f"the checkpoint {folder} belongs to a query {to}"


def _columns(fields: Iterable[pa.Field]) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in fields)
