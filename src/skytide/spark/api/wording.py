"""A query in few words, from the text by which checkpoints know it."""

import ast
import contextlib
import re


def short(asked: str) -> str:
    """Return a query as it was written, without default arguments.

    >>> short("Skyline(preference=low('x0') * low('x1'), nulls='error', distinct=False)")
    "Skyline(low('x0') * low('x1'))"
    >>> short("Aggregate(measures=(Measure(function='avg', column='price', name='mean'),), keys=('symbol',), time='ts') of city")
    'avg(price) AS mean by symbol of city'
    >>> short("Aggregate(measures=(), keys=('a',), time='', results=(Result(name='v', text='sum(x) / (1 + sum(y))'),)) of b")
    'sum(x) / (1 + sum(y)) AS v by a of b'
    """
    for default in ("preference=", ", nulls='error'", ", distinct=False"):
        asked = asked.replace(default, "")
    begin = asked.find("Aggregate(")
    if begin < 0:
        return asked
    end = _closed(asked, begin)
    with contextlib.suppress(SyntaxError, KeyError, ValueError):  # what a user's own function prints need not be Python
        return asked[:begin] + _sql(ast.parse(asked[begin:end], mode="eval").body) + asked[end:]
    return asked


def _closed(text: str, begin: int) -> int:
    """Return where a call ends that begins somewhere in a text; parentheses in quotes do not count."""
    depth = 0
    for found in re.finditer(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[()]""", text[begin:]):
        depth += {"(": 1, ")": -1}.get(found[0], 0)
        if found[0] == ")" and depth == 0:
            return begin + found.end()
    return len(text)


def _sql(aggregate: ast.expr) -> str:
    """Return aggregates as SQL writes them."""
    known = _arguments(aggregate)
    measures, results = (getattr(known[name], "elts", []) if name in known else [] for name in ("measures", "results"))
    columns = [f"{_text(each, 'text')} AS {_text(each, 'name')}" for each in results]
    columns = columns or [f"{_text(each, 'function')}({_text(each, 'column')}) AS {_text(each, 'name')}" for each in measures]
    keys = ast.literal_eval(known["keys"])
    return ", ".join(columns) + (f" by {', '.join(keys)}" if keys else "")


def _arguments(call: ast.expr) -> dict[str, ast.expr]:
    return {str(each.arg): each.value for each in call.keywords} if isinstance(call, ast.Call) else {}


def _text(call: ast.expr, name: str) -> str:
    return str(ast.literal_eval(_arguments(call)[name]))
