"""All aggregate functions, in one table: what is not in it does not exist, in SQL, in Python or on Spark."""

from skytide.queries.functions.collected import Collected
from skytide.queries.functions.count import Count
from skytide.queries.functions.extreme import EndInTime, Extreme
from skytide.queries.functions.function import AggregateFunction, Parts, Ranges, Reduction
from skytide.queries.functions.spread import Spread
from skytide.queries.functions.sum import Average, Sum
from skytide.queries.sketches import Distinct, Quantile, Sketch

_ALL: tuple[AggregateFunction, ...] = (
    Count(),
    Sum(),
    Average(),
    Extreme("min", "min", ("Min", "BoolAnd")),
    Extreme("max", "max", ("Max", "BoolOr")),
    EndInTime("first", "min", ("First",)),
    EndInTime("last", "max", ("Last",)),
    Sum(tries=True),
    Average(tries=True),
    Spread("stddev", root=True, sample=True, spark=("StddevSamp",)),
    Spread("stddev_samp", root=True, sample=True),
    Spread("stddev_pop", root=True, sample=False, spark=("StddevPop",)),
    Spread("variance", root=False, sample=True, spark=("VarianceSamp",)),
    Spread("var_samp", root=False, sample=True),
    Spread("var_pop", root=False, sample=False, spark=("VariancePop",)),
)
FUNCTIONS: dict[str, AggregateFunction] = {function.name: function for function in _ALL}
"""The functions by their names in SQL."""
SKETCHES: dict[str, type[Sketch]] = {sketch.name: sketch for sketch in (Distinct, Quantile)}
"""Functions that only Spark's analyser reads, as they have arguments beside their column; each is a mergeable aggregate."""

__all__ = ["FUNCTIONS", "SKETCHES", "AggregateFunction", "Collected", "Parts", "Ranges", "Reduction"]
