"""What all rules share: the checked configuration, the interpreter of the steps, and the one way in which errors of the input end the run."""

import re
import secrets
import shlex
from pathlib import Path

from reelmill.config import resolve
from reelmill.machine import has_gpu, usable_memory_bytes
from sam3dvid import stage as clip_stage
from shardwork.command import as_flags
from shardwork.digests import digest_value, sha256_file
from shardwork.errors import EXIT_BAD_INPUT, DataError, print_error
from shardwork.files import check_writable
from shardwork.shards import split_rows
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
CHECK = secrets.token_hex(8) if CONFIG.verify == "full" else ""
"""A parameter of steps that can look at finished files again: under `verify: full` it differs each time, so that they do so in every run."""
LOGS = RUN / "logs"


def limit_jobs():
    """Have jobs of this machine share its memory and its GPU, unless --resources says how much there is of them. On a cluster its scheduler does that."""
    for name, value in (("mem_mb", usable_memory_bytes() // 1_000_000), ("gpu", 1)):
        if workflow.is_main_process and workflow.local_exec and name not in workflow.global_resources:
            workflow.register_resource(name, value)


limit_jobs()
PYTHON = checked(CONFIG.interpreter, "conda" in map(str, workflow.deployment_settings.deployment_method))
BRANCHES = {}
"""Each branch that the configuration switches on: the inputs and flags of its report, and what else must be built before its gate: its release. Filled in by the
branches' rules. max_quarantined : where its section has its own.   told : a log whose last line is worth showing.   there : what must be there
before its release is one."""
MOST_PLAN_LINES = 30
"""Lines of a plan that are shown at the end."""


wildcard_constraints:
    shard="[0-9]+-of-[0-9]+",
    key="[0-9a-f]{16}",
    branch="[a-z0-9_]+",
    split="[a-z]+",


def step(name, **flags):
    """Return the start of a rule's command line: the steps' Python, the script of the rule's name, and flags whose change reruns nothing.

    Written into the command when this is parsed: as a parameter, a path would make a moved clone run everything again.
    """
    words = (PYTHON, f"{workflow.basedir}/scripts/{name}.py")
    line = " ".join((*map(shlex.quote, words), as_flags(flags))).strip()
    return line.replace("{", "{{").replace("}", "}}")


def key_of(*parts):
    """Return the key in a shard manifest's name: what the shard is made for, as 16 hex digits."""
    return digest_value(parts)[:16]


def some_branch(branches):
    """Refuse a configuration that switches every branch off: a run that makes nothing would look like one that made everything."""
    if not branches:
        raise DataError("E_CONFIG_MISSING", "config", "no section of a branch", "a section such as events", "add one: see config/README.md")


def some_rows(rows, table):
    """Refuse a filter that leaves nothing of a table, for the same reason."""
    if not rows:
        raise DataError("bad_table", table, "no row passes the filter", "at least one", "loosen the filter, or make the table of other sources")


def ending():
    """Return what a user sees last: what became of each branch, and where to look."""
    lines = []
    for branch in BRANCHES:
        text = Path(f"{RUN}/report/{branch}.txt")
        lines.append(text.read_text() + f"  results: {RUN}/, this report: {text}" if text.exists() else f"{branch}: not finished")
        if (plan := BRANCHES[branch].get("plan")) and plan.exists() and not text.exists():
            lines += [f"  {line}" for line in plan.read_text().splitlines()[:MOST_PLAN_LINES]] + [f"  this plan: {plan}"]
        if (told := BRANCHES[branch].get("told")) and told.exists():
            lines += [f"  {line}" for line in told.read_text().splitlines()[-1:]]
        if all(path.exists() for path in (*BRANCHES[branch]["built"], *filter(None, [BRANCHES[branch].get("there")]))):
            lines.append(f"  dataset: {BRANCHES[branch]['release']}/")
    return "\n".join([*lines, f"  logs of the jobs: {LOGS}/", ""])


def pool_branch(kind, section, rows, version):
    """Fill in the branch of a pool that is built from a table; return its manifest, key, settings, and flags of its step.

    One job: a pool is frozen as a whole. How many pictures may be refused is no part of the key: two configurations that share a pool would take turns.
    """
    place = clip_stage.pool_place(kind, clip_stage.books_of(Path(section.pool)), Path(section.pool))
    settings = as_flags(section.settings())
    key = key_of(version, settings, section.pool, rows_digest(rows, clip_stage.POOL_COLUMNS[kind]))
    manifest = place.manifest(f"build_{kind}_pool", clip_stage.ONE_SHARD, key)
    BRANCHES[kind] = {
        "manifests": [manifest],
        "built": [RUN / "report" / f"{kind}.png"],
        "release": section.pool,
        "there": Path(section.pool) / clip_stage.SELECTION,
        "table": section.table,
        "flags": as_flags({"table": section.table, "stage": place.stage, "pool": section.pool, "salt": section.salt, "limit": getattr(section, "limit", 0)}),
    }
    flags = as_flags({"table": section.table, "pool": section.pool, "stage": place.stage})
    return manifest, key, settings, flags


def pool_rows(kind, table):
    return checked(clip_stage.read_pool_table, kind, Path(table))


def errors_of(snakemake_logs):
    """Return the last error line in the log of each job that failed: with --quiet, Snakemake shows none of them."""
    said = "".join(Path(path).read_text() for path in snakemake_logs if Path(path).exists())
    logs = dict.fromkeys(shlex.split(found)[0] for found in re.findall(r"2> (.+)' returned non-zero exit status", said))
    lines = [[line for line in Path(log).read_text().splitlines() if line.startswith("error: ")] for log in logs if Path(log).exists()]
    return [found[-1] for found in lines if found]


def report_of(branch):
    return RUN / "report" / f"{branch}.json"


def allowed_in(branch):
    """Return how many refused items a branch may have: what its own section says, else the run's."""
    own = BRANCHES[branch].get("max_quarantined")
    return CONFIG.max_quarantined if own is None else own


def gate_of(branch):
    """Return the file that says a branch passed: its key holds what was asked of it, as in a shard manifest's name."""
    asked = [allowed_in(branch), CONFIG.prune, [str(path) for path in (*BRANCHES[branch]["manifests"], *BRANCHES[branch]["built"])]]
    return RUN / "report" / f"{branch}.{key_of(asked)}.passed"


def all_of(branch):
    """Return what a branch's target asks for: its gate, and all before it by name. Of files that only lead to others Snakemake would not miss one."""
    return [gate_of(branch), report_of(branch), *BRANCHES[branch]["manifests"], *BRANCHES[branch]["built"]]


def no_branch(branch):
    """Return an input function that says, only when the target is asked for, that the branch is switched off."""

    def inputs(wildcards):
        raise WorkflowError(f"config: no section {branch!r}: add it to make {branch}")

    return inputs
