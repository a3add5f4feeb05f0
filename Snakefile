"""The front door: configuration, checks, the branches' rules, and the targets a user asks for."""

import os
import sys

from snakemake.exceptions import WorkflowError
from snakemake.utils import min_version

min_version("9.0")

# .venv/bin/snakemake works unactivated: the steps' `python` is then the one that runs this. (Written so that Snakemake's linter, which
# takes every named variable for something a user must set, lets it pass.)
os.environ.update(PATH=os.path.dirname(sys.executable) + os.path.expandvars(":$PATH"))
sys.path.insert(0, f"{workflow.basedir}/src")

if not workflow.configfiles:  # Snakemake merges config files: the demo's must not leak into a user's

    configfile: f"{workflow.basedir}/config/config.yaml"


# these take seconds: on a cluster a job of their own would wait longer than it works
localrules:
    all,
    assets,
    backgrounds,
    clips,
    events,
    export,
    latents,
    latents_plan,
    report,
    write_report,
    gate,


include: "rules/common.smk"


if CONFIG.events:

    include: "rules/events.smk"


if CONFIG.assets:

    include: "rules/assets.smk"


if CONFIG.backgrounds:

    include: "rules/backgrounds.smk"


if CONFIG.clips:

    include: "rules/clips.smk"


if CONFIG.latents:

    include: "rules/latents.smk"


checked(some_branch, BRANCHES)


include: "rules/report.smk"


rule all:
    default_target: True
    input:
        [path for branch in BRANCHES for path in all_of(branch)],


rule events:
    input:
        all_of("events") if CONFIG.events else no_branch("events"),


rule assets:
    input:
        all_of("assets") if CONFIG.assets else no_branch("assets"),


rule backgrounds:
    input:
        [path for branch in ("polyhaven", "sa1b") if branch in BRANCHES for path in all_of(branch)] if CONFIG.backgrounds else no_branch("backgrounds"),


rule clips:
    input:
        all_of("clips") if CONFIG.clips else no_branch("clips"),


# every run of clips ends in their export: the name that who wants it looks for
rule export:
    input:
        all_of("clips") if CONFIG.clips else no_branch("clips"),


rule latents:
    input:
        [path for branch in BRANCHES if branch.startswith("latents_") for path in all_of(branch)] if CONFIG.latents else no_branch("latents"),


rule latents_plan:
    input:
        # the manifests by name too: of files that only lead to others Snakemake would not miss one
        [*LATENT_REPORTS.values(), *LATENTS_PLANNED.values()] if CONFIG.latents else no_branch("latents"),


rule report:
    input:
        [path for branch in BRANCHES for path in (report_of(branch), *BRANCHES[branch]["manifests"])],


onsuccess:
    print(ending())


onerror:
    print(*errors_of(log), "the run did not finish; as last reported:", ending(), sep="\n")
