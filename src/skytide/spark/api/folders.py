"""The folders that a start names: no two may be the same, nor one inside another where its readers would meet it."""

import itertools
import re
from collections.abc import Mapping

from skytide.errors import InvalidInput
from skytide.spark.checkpoint.files import real_uri
from skytide.spark.checkpoint.folder import OWN

_HIDDEN = re.compile(rf"(?!{OWN}(/|$)|_(common_)?metadata)(\.|_[^=/]*(/|$))")
"""Names that readers ignore, other than that of our own notes: Spark reads those of metadata, and takes others with = for partitions."""


def check_folders(folders: Mapping[str, str]) -> None:
    """Refuse folders, given by argument and full URI, that would get in each other's way.

    >>> check_folders({"path": "file:///data/out", "windows": "file:///data/out/_windows", "checkpoint": "file:///data/state"})
    >>> check_folders({"path": "file:///data/out", "late": "file:///data/out/_metadata"})
    Traceback (most recent call last):
    ...
    skytide.errors.InvalidInput: late=file:///data/out/_metadata: it lies inside path=file:///data/out; choose folders beside each other; what this query wrote can be moved there
    >>> check_folders({"path": "file:///data/out", "late": "file:///data/out/_x=1/late"})
    Traceback (most recent call last):
    ...
    skytide.errors.InvalidInput: late=file:///data/out/_x=1/late: it lies inside path=file:///data/out; choose folders beside each other; what this query wrote can be moved there
    >>> check_folders({"path": "file:///data/out", "late": "file:///data/out/late"})
    Traceback (most recent call last):
    ...
    skytide.errors.InvalidInput: late=file:///data/out/late: it lies inside path=file:///data/out; choose folders beside each other; what this query wrote can be moved there
    """
    real = {argument: real_uri(uri) for argument, uri in folders.items()}
    for outer, inner in itertools.permutations(real, 2):
        if real[outer] == real[inner]:
            reason = f"the same folder as {outer}={folders[outer]}"
        elif real[inner].startswith(f"{real[outer]}/") and not _is_ignored(real, outer, inner):
            reason = f"it lies inside {outer}={folders[outer]}"
        else:
            continue
        remedy = "choose folders beside each other; what this query wrote can be moved there"
        raise InvalidInput(value=f"{inner}={folders[inner]}", reason=reason, remedy=remedy)


def _is_ignored(real: Mapping[str, str], outer: str, inner: str) -> bool:
    below = real[inner].removeprefix(f"{real[outer]}/")
    return "checkpoint" not in (outer, inner) and _HIDDEN.match(below) is not None
