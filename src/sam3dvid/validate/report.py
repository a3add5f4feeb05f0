"""What a validation found: faults by suite, what was looked at, and a verdict for each suite."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from shardwork.errors import Fault, Problem, fault_from
from shardwork.jsonio import Json

LAYOUT, VISIBILITY, GEOMETRY, DETERMINISM, EXPORT, CONVENTION = "T1", "T2", "T3", "T4", "T5", "T6"
SUITES = {
    LAYOUT: "schema and layout",
    VISIBILITY: "visibility and cover",
    GEOMETRY: "geometry",
    DETERMINISM: "determinism",
    EXPORT: "export round trip",
    CONVENTION: "SAM 3D convention",
}
"""Suite -> what it is about."""
USUAL = (LAYOUT, VISIBILITY, GEOMETRY)
"""Suites that judge a dataset by itself: those that are run if none is chosen."""
PASSED, FAILED, BLOCKED = "passed", "failed", "blocked"
"""Verdicts of a suite. Blocked: it found no fault, but something that it must look at is not in order, and T1 says what."""


@dataclass(slots=True)
class Found:
    """What a look at one clip, one asset or the dataset as a whole found; it travels between processes.

    faults : (suite, problem), in the order they were found.   blocked : suites that could not look at all they must.   counts : what was looked at.
    not_looked : faults of the machine that kept a file from being read.
    """

    faults: list[tuple[str, Problem]] = field(default_factory=list)
    blocked: list[tuple[str, str]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    not_looked: list[Fault] = field(default_factory=list)
    _firsts: dict[tuple[str, str], int] = field(default_factory=dict)
    _repeats: Counter[int] = field(default_factory=Counter)

    def add(self, suite: str, where: str, found: object, expected: object, alike: str = "") -> None:
        """Note a fault.   alike : a name that the same fault has in other frames; of such a name the first is told, the others are counted."""
        if alike and (suite, alike) in self._firsts:
            self._repeats[self._firsts[suite, alike]] += 1
            return
        if alike:
            self._firsts[suite, alike] = len(self.faults)
        self.faults.append((suite, Problem(where, str(found), str(expected))))

    def block(self, suite: str, where: str) -> None:
        """Note that a suite cannot look at something, because of a fault that T1 names."""
        self.blocked.append((suite, where))

    def miss(self, error: OSError, where: str) -> None:
        """Note that the machine does not let a file be read: T1 cannot look at all it must, and says no more of that file."""
        self.not_looked.append(fault_from(error, where))
        self.block(LAYOUT, where)

    def told(self) -> list[tuple[str, Problem]]:
        """Return the faults, each with how many more frames have it too."""
        return [
            (suite, Problem(one.where, f"{one.found} (and so {more} times more)", one.expected) if (more := self._repeats[index]) else one)
            for index, (suite, one) in enumerate(self.faults)
        ]


@dataclass(frozen=True, slots=True)
class SuiteReport:
    """One suite's part.   blocked : what it could not look at; T1 names the faults of it.   figures : what it measured, ready for JSON; None for none."""

    suite: str
    verdict: str
    faults: tuple[Problem, ...]
    blocked: tuple[str, ...]
    figures: Json = None


@dataclass(frozen=True, slots=True)
class Report:
    """A whole validation.

    suites : one part each, in order.   clips : paths of the clips looked at, relative to the dataset, sorted.   counts : name -> number, of what was looked at.
    not_looked : faults of the machine that kept something from being looked at.
    """

    suites: tuple[SuiteReport, ...]
    clips: tuple[str, ...]
    counts: dict[str, int]
    not_looked: tuple[Fault, ...]

    @property
    def valid(self) -> bool:
        """Return whether everything was looked at and is in order."""
        return not self.not_looked and all(part.verdict == PASSED for part in self.suites)

    def lines(self) -> list[str]:
        """Return one line for each fault, with its suite."""
        return [f"{part.suite}: {problem}" for part in self.suites for problem in part.faults]

    def as_json(self) -> Json:
        """Return the report ready for JSON. It names no host, time or absolute path, and does not depend on the number of workers."""
        return {
            "clips": list(self.clips),
            "counts": self.counts,
            "not_looked": [{"code": fault.code, "where": fault.where, "found": fault.found} for fault in self.not_looked],
            "suites": {
                part.suite: {
                    "about": SUITES[part.suite],
                    "blocked": list(part.blocked),
                    "faults": [asdict(problem) for problem in part.faults],
                    "verdict": part.verdict,
                    **({} if part.figures is None else {"figures": part.figures}),
                }
                for part in self.suites
            },
            "valid": self.valid,
        }


def report_of(
    found: Iterable[Found], suites: Sequence[str], clips: Sequence[str], not_looked: Sequence[Fault], figures: Mapping[str, Json] | None = None
) -> Report:
    """Return the report of what single looks found, in their order.

    suites : those asked for. If T1 was not, its faults are told all the same where they block another suite.   figures : suite -> what it measured.
    """
    faults: dict[str, list[Problem]] = {suite: [] for suite in SUITES}
    blocked: dict[str, list[str]] = {suite: [] for suite in SUITES}
    counts: Counter[str] = Counter()
    missed = list(not_looked)
    for one in found:
        counts += one.counts
        missed += one.not_looked
        blocks = any(suite in suites for suite, _ in one.blocked)
        for suite, problem in one.told():
            if suite in suites or blocks:
                faults[suite].append(problem)
        for suite, where in one.blocked:
            if where not in blocked[suite]:
                blocked[suite].append(where)
    shown = [suite for suite in SUITES if suite in suites or faults[suite]]
    parts = [
        SuiteReport(
            suite,
            FAILED if faults[suite] else BLOCKED if blocked[suite] else PASSED,
            tuple(faults[suite]),
            tuple(blocked[suite]),
            (figures or {}).get(suite),
        )
        for suite in shown
    ]
    return Report(tuple(parts), tuple(clips), dict(sorted(counts.items())), tuple(missed))
