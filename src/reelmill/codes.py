"""Codes of the configuration and what they mean, and the one error that carries several problems."""

from __future__ import annotations

from collections.abc import Sequence

from shardwork.errors import DataError

E_CONFIG_KEY = "E_CONFIG_KEY"
E_CONFIG_MISSING = "E_CONFIG_MISSING"
E_CONFIG_TYPE = "E_CONFIG_TYPE"
E_CONFIG_VALUE = "E_CONFIG_VALUE"
E_CONFIG_YAML = "E_CONFIG_YAML"

CODES = {
    E_CONFIG_KEY: "The configuration has a key that does not exist, usually a typing error; the nearest valid key is named.",
    E_CONFIG_MISSING: "A key that has no default is not in the configuration, or the configuration file is not there.",
    E_CONFIG_TYPE: "A value of the configuration is of the wrong kind, such as text where a number belongs.",
    E_CONFIG_VALUE: "A value of the configuration is of the right kind but not one that can be used.",
    E_CONFIG_YAML: "A configuration file is not sound YAML, or holds a value that YAML reads as something else than it looks like.",
}

RANK = (E_CONFIG_YAML, E_CONFIG_KEY, E_CONFIG_MISSING, E_CONFIG_TYPE, E_CONFIG_VALUE)
"""What to mend first: a mistyped key often explains a missing one."""


class ConfigError(DataError):
    """Everything that is wrong with a configuration. As a DataError it is the first problem, and says where the others are.

    problems : one DataError for each, the one to mend first in front.
    """

    def each(self) -> tuple[DataError, ...]:
        """Return one error for each problem."""
        return self.problems

    def __init__(self, problems: Sequence[DataError]) -> None:
        self.problems = tuple(sorted(problems, key=lambda problem: RANK.index(problem.code)))
        first, others = self.problems[0], self.problems[1:]
        hint = first.hint
        if others:
            shown = ", ".join(f"{problem.where} [{problem.code}]" for problem in others[:5])
            rest = f" and {len(others) - 5} further" if len(others) > 5 else ""
            hint += f" (and {len(others)} more problem{'s' * (len(others) > 1)}: {shown}{rest})"
        super().__init__(first.code, first.where, first.found, first.expected, hint)
