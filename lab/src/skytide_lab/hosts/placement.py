"""Chooses which operators leave a host, and where they go: subset sum and bin packing (P4 §II, SPEC E6)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from skytide.errors import InvalidInput


@dataclass(frozen=True)
class Item:
    """An operator, and the resources it needs."""

    name: str
    cpu: float
    network: float = 0.0
    memory: float = 0.0
    neighbours: tuple[str, ...] = ()
    """Operators that it sends to or receives from."""

    def __post_init__(self) -> None:
        """Refuse negative loads."""
        if not (self.cpu >= 0 and self.network >= 0 and self.memory >= 0):
            raise InvalidInput(value=repr(self), reason="a load is negative", remedy="choose loads of 0 or more")


@dataclass(frozen=True)
class Bin:
    """A host, and its free resources."""

    name: str
    cpu: float
    network: float = float("inf")
    memory: float = float("inf")
    holds: tuple[str, ...] = ()
    """Operators that are there already."""
    spare: bool = False
    """Not in use yet: used only for what fits nowhere else."""


@dataclass(frozen=True)
class Packing:
    """Where items go."""

    places: dict[str, str]
    """The bin of each item that was placed."""
    left: tuple[str, ...] = ()
    """Items that fit nowhere."""


@dataclass
class _Open:
    bin: Bin
    cpu: float
    network: float
    memory: float
    holds: set[str] = field(default_factory=set)
    used: bool = True

    def fits(self, item: Item) -> bool:
        return item.cpu <= self.cpu and item.network <= self.network and item.memory <= self.memory

    def take(self, item: Item) -> None:
        self.cpu, self.network, self.memory = self.cpu - item.cpu, self.network - item.network, self.memory - item.memory
        self.holds.add(item.name)
        self.used = True


def first_fit(items: Sequence[Item], bins: Sequence[Bin]) -> Packing:
    """Return a packing of the items by descending CPU load, each in the first bin with room; bins with a neighbour are tried first.

    >>> hosts = [Bin("a", 0.3), Bin("b", 0.5, holds=("scan",)), Bin("c", 1.0, spare=True)]
    >>> first_fit([Item("small", 0.2, neighbours=("scan",)), Item("large", 0.6)], hosts).places
    {'large': 'c', 'small': 'b'}
    """
    return _pack(items, bins, lambda item, open_: (not open_.used, open_.holds.isdisjoint(item.neighbours)))


def best_fit(items: Sequence[Item], bins: Sequence[Bin]) -> Packing:
    """Return a packing of the items by descending CPU load, each in the bin in which it leaves the least CPU free.

    >>> best_fit([Item("small", 0.2)], [Bin("a", 0.9), Bin("b", 0.25)]).places
    {'small': 'b'}
    """
    return _pack(items, bins, lambda item, open_: (not open_.used, open_.cpu))


def _pack(items: Sequence[Item], bins: Sequence[Bin], rank: Callable[[Item, _Open], tuple[bool, float]]) -> Packing:
    """Return a packing of the items by descending CPU load, each in the bin with the lowest rank, the first of them if there are several."""
    _distinct([item.name for item in items])
    _distinct([present.name for present in bins])
    open_bins = [
        _Open(present, present.cpu, present.network, present.memory, set(present.holds), not present.spare) for present in bins
    ]
    places: dict[str, str] = {}
    left = []
    for item in sorted(items, key=lambda item: (-item.cpu, item.name)):
        fitting = [open_ for open_ in open_bins if open_.fits(item)]
        if fitting:
            chosen = min(fitting, key=lambda open_: rank(item, open_))
            chosen.take(item)
            places[item.name] = chosen.bin.name
        else:
            left.append(item.name)
    return Packing(places, tuple(left))


RESOLUTION = 1_000  # steps of the load: of sums within the same step, only the smallest is kept


@dataclass(frozen=True)
class _Sum:
    cpu: float
    last: Item | None = None
    before: "_Sum | None" = None


def leaving(items: Sequence[Item], target: float) -> list[str]:
    """Return the operators that leave an overloaded host, so that as much load as possible up to the target stays (subset sum).

    >>> leaving([Item("a", 0.5), Item("b", 0.3), Item("c", 0.29)], target=0.6)
    ['a']
    """
    _distinct([item.name for item in items])
    sums = {0: _Sum(0.0)}
    for item in sorted(items, key=lambda item: (-item.cpu, item.name)):  # large operators first, so that few have to leave
        for reached in list(sums.values()):
            cpu = reached.cpu + item.cpu
            step = int(cpu * RESOLUTION)
            if cpu <= target and (step not in sums or cpu < sums[step].cpu):
                sums[step] = _Sum(cpu, item, reached)
    stay = {item.name for item in items if item.cpu == 0}
    best = max(sums.values(), key=lambda reached: reached.cpu)
    while best.last is not None and best.before is not None:
        stay.add(best.last.name)
        best = best.before
    return [item.name for item in items if item.name not in stay]


def _distinct(names: list[str]) -> None:
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidInput(
            value=f"the name {twice!r}", reason="it is given twice", remedy="give each operator and host its own name"
        )
