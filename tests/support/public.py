"""Every public name, found in the namespaces and registries of skytide."""

from importlib import import_module
from typing import Any

import skytide
from skytide.queries import QUERIES
from skytide.queries.functions import SKETCHES

OF_QUERIES = ("Expression", "Measure", "Nulls", "Preference", *(kind.__name__ for kind in (*QUERIES.values(), *SKETCHES.values())))
"""What of `skytide.queries` people write; the rest is for the layers above it."""


def public_names() -> dict[str, Any]:
    """Return what people can write, by how they write it."""
    found: dict[str, Any] = {f"skytide.{name}": getattr(skytide, name) for name in skytide.__all__}
    for namespace in skytide.NAMESPACES:
        module = import_module(f"skytide.{namespace}")
        names = OF_QUERIES if namespace == "queries" else module.__all__
        found |= {f"skytide.{namespace}.{name}": getattr(module, name) for name in names}
    return found
