"""The verdict on a claim, and on all claims of an experiment."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """One of four verdicts."""

    HOLDS = "holds"
    PART = "holds in part"
    NOT = "does not hold"
    OPEN = "cannot be told"


HOLDS, PART, NOT, OPEN = Verdict


def of_all(holds: Iterable[bool]) -> Verdict:
    """Return the verdict on a claim that was tested several times: with other seeds, on other streams, in other settings.

    >>> of_all([True, True]), of_all([True, False]), of_all([False, False])
    (<Verdict.HOLDS: 'holds'>, <Verdict.PART: 'holds in part'>, <Verdict.NOT: 'does not hold'>)
    """
    seen = list(holds)
    return HOLDS if all(seen) else PART if any(seen) else NOT


@dataclass(frozen=True)
class Claim:
    """What a paper claims, and what was found here; a claim that is in no paper begins with "(ours)"."""

    paper: str
    found: str
    holds: bool | Verdict
    """True, False, or one of the four verdicts."""
    why: str = ""
    """Which part does not hold and why, as far as is known, or what the paper leaves open."""

    @property
    def verdict(self) -> Verdict:
        """Return the verdict."""
        return self.holds if isinstance(self.holds, Verdict) else HOLDS if self.holds else NOT


def together(claims: Sequence[Claim]) -> Verdict:
    """Return the verdict on an experiment: it holds if all of its claims do, and does not hold if none does, even in part.

    >>> together([Claim("a", "", True), Claim("b", "", Verdict.OPEN)])
    <Verdict.PART: 'holds in part'>
    """
    seen = {claim.verdict for claim in claims}
    if len(seen) == 1:
        return seen.pop()
    return PART if seen & {HOLDS, PART} else NOT


def in_a_line(claims: Sequence[Claim]) -> str:
    """Return the findings in one line: all of them if all claims hold, otherwise those of the claims that do not."""
    short = [claim for claim in claims if claim.verdict is not HOLDS]
    if not short:
        return "; ".join(claim.found for claim in claims)
    counted = f"{len(claims) - len(short)} of {len(claims)} claims hold; "
    return counted + "; ".join(f"{claim.verdict}: {claim.found}" + (f" ({claim.why})" if claim.why else "") for claim in short)


def flips(base: Sequence[Claim], other: Sequence[Claim]) -> str:
    """Return in words which verdicts another choice changes.

    >>> flips([Claim("it grows", "", True)], [Claim("it grows", "", False)])
    '"it grows" does not hold'
    """
    turned = [f'"{a.paper}" {b.verdict}' for a, b in zip(base, other, strict=True) if a.verdict is not b.verdict]
    return "; ".join(turned) or "all verdicts are the same"
