"""What all rules share: the checked configuration, the interpreter of the steps, and the one way in which errors of the input end the run."""

import shlex
from pathlib import Path

from reelmill.config import resolve
from shardwork.command import as_flags
from shardwork.errors import EXIT_BAD_INPUT, DataError, print_error
from shardwork.files import check_writable
from shardwork.tables import rows_digest


def checked(function, *values):
    """Call a check; its error ends the run in one line before anything has started (a WorkflowError would add three of ours)."""
    try:
        return function(*values)
    except DataError as error:
        print_error(error)
        sys.exit(EXIT_BAD_INPUT)


CONFIG = checked(resolve, config, [Path(path) for path in workflow.configfiles])
RUN = Path(CONFIG.results) / CONFIG.run
checked(check_writable, RUN)
LOGS = RUN / "logs"
PYTHON = checked(CONFIG.interpreter, "conda" in map(str, workflow.deployment_settings.deployment_method))
BRANCHES = {}
"""Each branch that the configuration switches on: the inputs, flags and gate flags of its report. Filled in by the branches' rules."""


wildcard_constraints:
    shard="[0-9]+",
    branch="[a-z]+",


def step(name):
    """Return the start of a rule's command line: the steps' Python and the script of the rule's name.

    Written into the command when this is parsed: as a parameter, a path would make a moved clone run everything again.
    """
    words = (PYTHON, f"{workflow.basedir}/scripts/{name}.py")
    return " ".join(shlex.quote(word) for word in words).replace("{", "{{").replace("}", "}}")


def report_of(branch):
    return RUN / "report" / f"{branch}.json"


def gate_of(branch):
    return RUN / "report" / f"{branch}.passed"


def no_branch(branch):
    """Return an input function that says, only when the target is asked for, that the branch is switched off."""

    def inputs(wildcards):
        raise WorkflowError(f"config: no section {branch!r}: add it to make {branch}")

    return inputs
