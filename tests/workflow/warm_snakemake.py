"""Snakemake with its libraries loaded, which take longer than most of its runs here: each run is a fork, in which `snakemake` starts as its command does.

Reads from standard input one JSON object a line: argv, cwd, env, out and err (files that take its output), seconds (after which it is killed). Answers each
with a line: the exit status, negative for a signal. Loads no module of ours: a run takes them from its own project.
"""

import importlib
import json
import os
import signal
import sys
from pathlib import Path

LIBRARIES = ("snakemake.cli", "snakemake.utils", "snakemake.assets", "snakemake.report.html_reporter", "jinja2", "numpy", "pandas", "smart_open", "yaml", "yte")


def serve() -> None:
    """Start a run for each line, and wait for it; in the fork, end as the run does."""
    modules = [importlib.import_module(name) for name in LIBRARIES]
    for line in sys.stdin:
        call = json.loads(line)
        if (run := os.fork()) == 0:
            become(call)
            modules[0].main()
        print(os.waitstatus_to_exitcode(os.waitpid(run, 0)[1]), flush=True)


def become(call) -> None:
    """Have of this process what a new one that is started with argv, cwd and env has."""
    signal.alarm(call["seconds"])
    os.chdir(call["cwd"])
    for number, path in enumerate((os.devnull, call["out"], call["err"])):
        opened = os.open(path, os.O_RDWR)
        os.dup2(opened, number)
        os.close(opened)
    os.environ.clear()
    os.environ.update(call["env"])
    sys.argv = call["argv"]
    sys.path[0] = str(Path(call["argv"][0]).parent)


if __name__ == "__main__":
    serve()
