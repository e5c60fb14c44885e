"""A user's own operator on the rows of a key, and how its state is stored."""

from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skytide.errors import InvalidInput, SkytideError
from skytide.errors.checks import check_integer
from skytide.queries import Identity

State: TypeAlias = "bytes | pa.Table | NDArray[Any] | None"
VERSION_BYTES = 4  # at the beginning of each stored state
Rows: TypeAlias = "pa.Table | dict[str, Any]"


@runtime_checkable
class KeyedOperator(Protocol):
    """A user's operator: any object with these two methods.

    `process` gets the next rows of a key in order of time, or the rows of its next window, and must be pure: the same state and rows have
    the same result every time. Without windows it must not matter how rows are divided either: `process` of some rows and then of others
    equals `process` of all. A class may also have

    - `version`: a number, 1 if absent. State that another version wrote goes through `upgrade(state, version)`, or is refused;
    - `schema(rows)`: the Arrow columns of its results; if absent, `process` is tried with no rows;
    - `check(rows)`: raise InvalidInput if rows with these columns cannot be processed;
    - `process_windows(rows, begins, ends)`: all windows at once, for an operator whose windows need no state: the result rows of
      the windows from `begins` to `ends`, one window after the other, and how many each has.

    Examples
    --------
    >>> class Counting:
    ...     def open(self, key):
    ...         return 0
    ...     def process(self, state, rows):
    ...         return state + rows.num_rows, [{"seen": state + rows.num_rows}]
    >>> isinstance(Counting(), KeyedOperator)
    True

    More in [keyed.md](keyed.md).
    """

    def open(self, key: Any) -> State:
        """Return the state of a key that has had no row yet."""

    def process(self, state: Any, rows: pa.Table) -> tuple[State, Rows]:
        """Return the state after some rows, and results."""


class Operator:
    """Calls a user's operator, and reports what went wrong."""

    def __init__(self, own: KeyedOperator) -> None:
        """Refuse objects that are not operators."""
        if isinstance(own, type):
            raise InvalidInput(
                value=f"apply({own.__name__})", reason="a class, not an object of it", remedy=f"pass {own.__name__}()"
            )
        if not isinstance(own, KeyedOperator) or not callable(own.open) or not callable(own.process):
            raise InvalidInput(
                value=f"apply({own!r})",
                reason="not an operator on keys",
                remedy="pass an object with open(key) and process(state, rows)",
            )
        self.own = own
        self.name = type(own).__name__
        self.version = getattr(own, "version", 1)
        check_integer(f"version of {self.name}", self.version, 0, 2 ** (8 * VERSION_BYTES) - 1)
        self.is_vectorised = hasattr(own, "process_windows")

    def identity(self) -> Identity:
        """Return what has to be the same for the operator to continue from a checkpoint, unless it upgrades states."""
        return Identity.of(self.own, self.name)

    def open(self, key: Any) -> State:
        """Return the state of a new key."""
        try:
            return self.unshared(self.own.open(key))
        except Exception as error:
            raise self._failed("open", key, error) from error

    def process(self, key: Any, state: State, rows: pa.Table) -> tuple[State, Rows]:
        """Return state and results."""
        try:
            after, results = self.own.process(state, rows)
        except Exception as error:
            raise self._failed("process", key, error) from error
        return after, results

    def process_windows(
        self, rows: pa.Table, begins: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> tuple[pa.Table, NDArray[np.int64]]:
        """Return the results of all windows, and how many each has."""
        try:
            results, counts = self.own.process_windows(rows, begins, ends)  # type: ignore[attr-defined]
            return results, np.asarray(counts, np.int64)
        except Exception as error:
            raise SkytideError(f"process_windows of {self.name} raised {type(error).__name__}: {error}") from error

    def schema(self, rows: pa.Schema, keys: tuple[str, ...]) -> pa.Schema:
        """Return the columns of the results."""
        if hasattr(self.own, "check"):
            self.own.check(rows)
        if hasattr(self.own, "schema"):
            schema: pa.Schema = self.own.schema(rows)
            return schema
        row = pa.table({field.name: pa.array([_sample(field.type)], field.type) for field in rows}, rows)
        values = tuple(row[key][0].as_py() for key in keys)
        key = values[0] if len(values) == 1 else values
        schemas, failures = [], []
        for tried in (row.slice(0, 0), row):
            try:
                _, given = self.process(key, self.open(key), tried)
                schemas.append((given if isinstance(given, pa.Table) else pa.table(given)).schema)
            except SkytideError as error:
                failures.append(error)
        typed = [schema for schema in schemas if not any(_has_no_type(field.type) for field in schema)] or schemas
        if typed:
            return typed[0]
        raise InvalidInput(
            value=f"apply({self.name}())",
            reason=f"its result columns are unknown: it was called without rows and with a row of zeros, and {failures[-1]}",
            remedy="let process take a table without rows, or add a method schema(rows) that returns an Arrow schema",
        ) from failures[-1]

    def packed(self, state: State) -> bytes:
        """Return the state as it is stored."""
        head = self.version.to_bytes(VERSION_BYTES, "big")
        if state is None:
            return head + b"0"
        if isinstance(state, bytes | bytearray | memoryview):
            return head + b"b" + bytes(state)
        if isinstance(state, pa.Table):
            data = pa.BufferOutputStream()
            with pa.ipc.new_stream(data, state.schema) as writer:
                writer.write_table(state)
            return head + b"t" + bytes(data.getvalue())
        if (
            type(state) is np.ndarray and not state.dtype.hasobject and state.dtype.names is None
        ):  # subclasses hold more: masks, axes
            about = f"{state.dtype.str} {' '.join(map(str, state.shape))}\n"
            return head + b"n" + about.encode() + state.tobytes()
        raise SkytideError(
            f"the state of {self.name} is a {type(state).__name__}; return None, bytes, an Arrow table or a plain NumPy array of numbers"
        )

    def unpacked(self, data: bytes) -> State:
        """Return the state for a result of `packed`, upgraded to this version."""
        version, form, body = int.from_bytes(data[:VERSION_BYTES], "big"), data[4:5], data[5:]
        state: State = None
        if form == b"b":
            state = body
        elif form == b"t":
            state = pa.ipc.open_stream(body).read_all()
        elif form == b"n":
            about, _, values = body.partition(b"\n")
            dtype, *shape = about.decode().split(" ")
            state = np.frombuffer(bytearray(values), dtype).reshape([int(length) for length in shape if length])
        if version == self.version:
            return state
        if not hasattr(self.own, "upgrade"):
            raise SkytideError(
                f"the state of {self.name} was written by its version {version}, and this is version {self.version}; "
                "add a method upgrade(state, version), go back to that version, or start with another checkpoint"
            )
        try:
            upgraded: State = self.own.upgrade(state, version)
        except Exception as error:
            raise SkytideError(f"upgrade of {self.name} from version {version} raised {type(error).__name__}: {error}") from error
        return upgraded

    @staticmethod
    def unshared(state: State) -> State:
        """Return a state that `process` may change in place: results, or the states of other keys, may lie in the same memory."""
        return state.copy() if isinstance(state, np.ndarray) else bytes(state) if isinstance(state, bytearray) else state

    def _failed(self, method: str, key: Any, error: Exception) -> SkytideError:
        return SkytideError(f"{method} of {self.name} raised {type(error).__name__} for the key {key!r}: {error}")


def _has_no_type(type_: pa.DataType) -> bool:
    """Return whether a type was inferred from a list without values."""
    nested = [type_.field(number).type for number in range(type_.num_fields)] if pa.types.is_nested(type_) else []
    return bool(pa.types.is_null(type_) or any(map(_has_no_type, nested)))


def _sample(type_: pa.DataType) -> Any:
    """Return a small value of a type, or None if none is known here."""
    for value in (0, "", b"", False):
        try:
            return pa.scalar(value, type_).as_py()
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, TypeError):
            continue
    return None
