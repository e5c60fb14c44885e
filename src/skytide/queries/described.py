"""What an object is, as a text that is the same in every process: its class and all its parameters, however deep.

Checkpoints identify a query by it, so objects that differ must have different texts, and equal ones the same text tomorrow.
"""

import copyreg
import functools
import hashlib
import sys
import types
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, NamedTuple

from skytide.errors import InvalidInput

MAX_TEXT = 500  # characters; longer texts are represented by their hash
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
"""The version that functions are compiled by: another one compiles the same function to something else."""


class Described(NamedTuple):
    """An object as a text, and the compiled code of the functions in it, which can be compared within one version of Python."""

    text: str
    code: str = ""


def described(value: object) -> Described:
    """Return a text for an object; raise InvalidInput if there is something in it that cannot be told from another.

    An object of your own is its class, by name, and its attributes: what it would be pickled as. Of a dataclass these are the fields
    that are compared; those of ours only if they differ from their defaults, so that later versions may have more of them. A function is
    its name, its code, its defaults and the variables it captured, those of its decorators too; global variables that it reads are not.

    >>> described({"b": 2.0, "a": (1, None)}).text
    "{'a': (1, None), 'b': 2.0}"
    >>> described(lambda x: x + 1) == described(lambda x: x + 1), described(lambda x: x + 1) == described(lambda x: x + 2)
    (True, False)
    """
    description = _Described()
    text = description.text(value)
    return Described(text, f"{PYTHON} {_digest(' '.join(description.codes))}" if description.codes else "")


class _Described:
    def __init__(self, open_: Iterable[int] = ()) -> None:
        self.codes: list[str] = []
        self._open = list(open_)  # objects that are being described, to notice those that hold themselves

    def text(self, value: Any) -> str:
        if value is None or value is ... or isinstance(value, bool | int | float | complex):
            return _plainly(value)
        if isinstance(value, str | bytes):
            shown = repr(value)
            return shown if len(shown) <= MAX_TEXT else f"{shown[:20]}... {_digest(shown)}"
        if isinstance(value, type | types.ModuleType) or _is_unbound(value):
            return _name(value)
        if id(value) in self._open:
            return f"<{len(self._open) - self._open.index(id(value))} up>"
        self._open.append(id(value))
        try:
            return self._whole(value)
        finally:
            self._open.pop()

    def _whole(self, value: Any) -> str:
        if type(value) in (tuple, list):
            inside = ", ".join(map(self.text, value))
            return f"({inside})" if type(value) is tuple else f"[{inside}]"
        if type(value) is dict:
            return "{" + ", ".join(sorted(f"{self.text(key)}: {self.text(item)}" for key, item in value.items())) + "}"
        if isinstance(value, set | frozenset):
            return f"{_name(type(value))}({', '.join(sorted(map(self.text, value)))})"
        if hasattr(value, "isNotNull") and hasattr(value, "alias"):
            return str(value)  # a Column of Spark
        if isinstance(value, types.MethodType):
            return f"{self.text(value.__func__)} of {self.text(value.__self__)}"
        if isinstance(value, types.BuiltinFunctionType):
            return f"{_name(value)} of {self.text(value.__self__)}"
        wrapped = getattr(value, "__wrapped__", None) if callable(value) else None
        return self._single(value) if wrapped is None else self._decorated(value, wrapped)

    def _single(self, value: Any) -> str:
        if isinstance(value, types.FunctionType):
            return self._function(value)
        if is_dataclass(value):
            cls = type(value)
            told = {
                field.name: getattr(value, field.name)
                for field in fields(value)
                if self._tells(cls, field, getattr(value, field.name))
            }
            return f"{_name(cls)}({self._named(told | _added(value))})"
        return self._pickled(value)

    def _decorated(self, value: Any, wrapped: Any) -> str:
        """Return a decorated function with what its decorator holds; without it if that cannot be described, as a lock, or is a cache or compiled code."""
        cls: Any = type(value)
        if isinstance(value, types.FunctionType) or cls.__reduce__ is object.__reduce__:
            inside = _Described(self._open)
            with suppress(InvalidInput):
                text = inside._single(value)
                self.codes += inside.codes
                return text
        return self._whole(wrapped)

    def _function(self, function: types.FunctionType) -> str:
        self.codes.append(_digest(_code(function.__code__)))
        captured = dict(zip(function.__code__.co_freevars, map(_content, function.__closure__ or ()), strict=True))
        wrapped = getattr(function, "__wrapped__", None)
        inside = any(variable is wrapped for variable in captured.values())
        given = {
            "defaults": function.__defaults__,
            "named": function.__kwdefaults__,
            "captured": captured,
            "wrapped": None if inside else wrapped,
        }
        return f"{_name(function)}({self._named({name: part for name, part in given.items() if part})})"

    def _named(self, values: dict[str, Any]) -> str:
        return ", ".join(f"{name}={self.text(part)}" for name, part in values.items())

    def _tells(self, cls: type, field: "Field[Any]", given: Any) -> bool:
        """Return whether a field tells an object from others: not if it is not compared, or is a field of ours and has its default."""
        if not field.compare or not _is_our_field(cls, field):
            return field.compare
        default = field.default if field.default_factory is MISSING else field.default_factory()
        if default is MISSING:
            return True
        ours, usual = _Described(self._open), _Described(self._open)
        return (ours.text(given), ours.codes) != (usual.text(default), usual.codes)

    def _pickled(self, value: Any) -> str:
        """Return what an object would be pickled as."""
        cls = type(value)
        try:
            reduce = copyreg.dispatch_table.get(cls)
            reduced: Any = reduce(value) if reduce else value.__reduce_ex__(4)
        except Exception as error:
            raise InvalidInput(
                value=f"an object of {_name(cls)} in a query",
                reason=f"it cannot be told whether it is the same when the query starts again: {error}",
                remedy="leave it out, or give the class that holds it a __getstate__ without it",
            ) from None
        if isinstance(reduced, str):
            return f"{_name(cls)} {reduced}"
        make, given, state, items, pairs = (tuple(reduced) + (None,) * 3)[:5]
        if reduce:
            make = _name(make)  # the code of a library, which may change
        if isinstance(state, dict):
            copied = functools.WRAPPER_ASSIGNMENTS if "__wrapped__" in state else ()
            state = {name: part for name, part in state.items() if name not in copied and not _is_cache(cls, name)} or None
        is_new = bool(given) and (given[0] == cls) is True  # as most objects are: made empty, then given their attributes
        content = [(given[1:] or None) if is_new else (make, *given), state, list(items or ()) or None, list(pairs or ()) or None]
        return f"{_name(cls)}({', '.join(self.text(part) for part in content if part is not None)})"


def _plainly(value: object) -> str:
    base = next((base for base in (bool, int, float, complex) if isinstance(value, base)), None)
    return repr(value) if base is None or base is type(value) else f"{_name(type(value))}({base.__repr__(value)})"


def _name(value: Any) -> str:
    """Return the name of a class or function; ours may move to another module."""
    name = value.__name__ if isinstance(value, type | types.ModuleType) else value.__qualname__
    module = getattr(value, "__module__", None) or ""  # of a builtin or a module
    return str(name) if module in ("", "builtins") or _is_ours(module) else f"{module}.{name}"


def _is_unbound(value: Any) -> bool:
    """Return whether it is a builtin that belongs to a module or a class, not to an object."""
    return isinstance(value, types.BuiltinFunctionType) and isinstance(value.__self__, type | types.ModuleType | None)


def _is_our_field(cls: type, field: "Field[Any]") -> bool:
    """Return whether the class that has declared a field is one of ours; yours may be below it."""
    holders = [base for base in cls.__mro__ if vars(base).get("__dataclass_fields__", {}).get(field.name) is field]
    return _is_ours(holders[-1].__module__)


def _added(value: Any) -> dict[str, Any]:
    """Return the attributes that an object has beside its fields, if its class is below a dataclass but none itself."""
    if "__dataclass_fields__" in vars(type(value)):
        return {}
    state = value.__getstate__()
    parts = [part for part in (state if isinstance(state, tuple) else (state,)) if isinstance(part, dict)]  # attributes and slots
    own_fields = {field.name for field in fields(value)}
    added = {
        name: attribute
        for part in parts
        for name, attribute in part.items()
        if name not in own_fields and not _is_cache(type(value), name)
    }
    return dict(sorted(added.items()))


def _is_ours(module: str) -> bool:
    return module.split(".", maxsplit=1)[0] in ("skytide", "skytide_lab")  # some of ours have moved to the laboratory


def _is_cache(cls: type, name: Any) -> bool:
    return isinstance(getattr(cls, str(name), None), functools.cached_property)


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return ...  # not captured yet


def _code(code: types.CodeType) -> str:
    """Return what compiled code does, without where it was written."""
    return repr((code.co_code, code.co_names, code.co_varnames, *map(_constant, code.co_consts)))


def _constant(value: Any) -> Any:
    if isinstance(value, types.CodeType):
        return _code(value)
    return sorted(map(repr, value)) if isinstance(value, frozenset) else value


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=16).hexdigest()
