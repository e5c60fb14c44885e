"""The contracts of pyproject.toml hold, and each one catches a guilty specimen."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import grimp
import pytest
from importlinter.application.use_cases import read_user_options
from importlinter.configuration import configure
from importlinter.contracts.forbidden import ForbiddenContract
from importlinter.contracts.layers import LayersContract
from importlinter.contracts.protected import ProtectedContract

configure()
SETTINGS = read_user_options(str(Path(__file__).resolve().parents[2] / "pyproject.toml"))
KINDS = {"layers": LayersContract, "protected": ProtectedContract, "forbidden": ForbiddenContract}
LAYERS = "Each layer imports only those below it"
SPARK = "Inside skytide.spark, each layer imports only those below it"
SINKS = "The engine knows no sink by name"
PYSPARK = "Only skytide.spark imports pyspark, and the laboratory where it makes a table"
NUMBA = "Only skytide.kernels imports numba"
LABORATORY = "skytide does not know its laboratory"
LABORATORY_LAYERS = "Each layer of the laboratory imports only those below it"


def broken_contracts(graph: grimp.ImportGraph) -> set[str]:
    contracts = [
        KINDS[options["type"]](options["name"], SETTINGS.session_options, options) for options in SETTINGS.contracts_options
    ]
    assert {contract.name for contract in contracts} == {LAYERS, SPARK, SINKS, PYSPARK, NUMBA, LABORATORY, LABORATORY_LAYERS}
    return {contract.name for contract in contracts if not contract.check(deepcopy(graph), verbose=False).kept}


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    graph: Any = grimp.build_graph("skytide", "skytide_lab", include_external_packages=True, cache_dir=None)
    return graph


def test_the_contracts_hold(graph: grimp.ImportGraph) -> None:
    assert broken_contracts(graph) == set()


@pytest.mark.parametrize(
    ("module", "imported", "broken"),
    [
        ("skytide.kernels.guilty", "skytide.queries", LAYERS),
        ("skytide.spark.api.guilty", "skytide.sim", LAYERS),
        ("skytide.sim.guilty", "skytide.spark", LAYERS),
        ("skytide.control.guilty", "skytide.routing", LAYERS),
        ("skytide.admission.guilty", "skytide.control", LAYERS),
        ("skytide.loop.guilty", "skytide.cli", LAYERS),
        ("skytide.routing.guilty", "skytide.keyed", LAYERS),
        ("skytide.queries.guilty", "skytide.testing", LAYERS),
        ("skytide.nowhere", "skytide.errors", LAYERS),
        ("skytide.spark.engine.guilty", "skytide.spark.api", SPARK),
        ("skytide.spark.engine.guilty", "skytide.spark.sources", SPARK),
        ("skytide.spark.sinks.guilty", "skytide.spark.engine", SPARK),
        ("skytide.spark.sources.guilty", "skytide.spark.api", SPARK),
        ("skytide.spark.checkpoint.guilty", "skytide.spark.sinks", SPARK),
        ("skytide.spark.api.guilty", "skytide.spark.scaling", SPARK),
        ("skytide.spark.compat", "skytide.spark.arrow", SPARK),
        ("skytide.spark.nowhere", "skytide.errors", SPARK),
        ("skytide.spark.engine.guilty", "skytide.spark.sinks.parquet", SINKS),
        ("skytide", "pyspark", PYSPARK),
        ("skytide_lab.experiments.guilty", "pyspark", PYSPARK),
        ("skytide.windows.guilty", "numba", NUMBA),
        ("skytide_lab.kernels.guilty", "numba", NUMBA),
        ("skytide.cli.guilty", "skytide_lab.commands", LABORATORY),
        ("skytide.errors.guilty", "skytide_lab.kernels", LABORATORY),
        ("skytide_lab.sim.guilty", "skytide_lab.experiments", LABORATORY_LAYERS),
        ("skytide_lab.experiments.guilty", "skytide_lab.demonstrations", LABORATORY_LAYERS),
        ("skytide_lab.nowhere", "skytide", LABORATORY_LAYERS),
    ],
)
def test_a_guilty_module_is_caught(graph: grimp.ImportGraph, module: str, imported: str, broken: str) -> None:
    specimen = deepcopy(graph)
    specimen.add_module(module)
    specimen.add_import(importer=module, imported=imported)
    assert broken_contracts(specimen) == {broken}
