# The few commands of this project: `make` lists them. Every one may be repeated: what is done already costs nothing.
# All paths are relative, so that a folder with a space or an apostrophe in its name works.
.POSIX:
.SUFFIXES:
.PHONY: help setup demo resume test test-cluster lint format clean

py = .venv/bin/python
# For the user: make resume CONFIG=config/events_v1.yaml. Recipes read them from the environment, where no quote can break them.
CONFIG =
RUN =
CORES = all
export CONFIG RUN
# What is printed by Python shows at once, also in a pipe.
export PYTHONUNBUFFERED = 1

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1: /p' Makefile | awk -F': ' '{printf "%-20s %s\n", $$1, $$2}'

setup: ## make .venv with all packages, and install what Blender needs where that is allowed
	@sh scripts/setup.sh $(if $(filter setup,$(MAKECMDGOALS)),,--quiet)

demo: setup ## public videos, scans and panoramas to validated datasets, some minutes on two cores
	@$(py) scripts/make_demo_data.py
	@$(py) scripts/make_video_table.py --videos data/demo/videos --split train --out data/demo/videos.csv
	@$(py) scripts/make_asset_table.py --assets data/demo/scans --layout gso --out data/demo/assets.csv
	@$(py) scripts/make_panorama_table.py --panoramas data/demo/panoramas --authors "Greg Zaal" --out data/demo/panoramas.csv
	@.venv/bin/snakemake --cores $(CORES) --quiet rules

# Two runs at once would write the same files, and unlocking would allow it: hence the look at what still runs in this folder.
# After kill -9 that may be a step without its snakemake.
resume: setup ## go on with a run that was killed (CONFIG=config/x.yaml RUN=name)
	@live=; for p in /proc/[0-9]*; do \
	  if [ "$$(readlink "$$p/cwd" 2>/dev/null)" = "$$(pwd -P)" ] && tr '\0' ' ' <"$$p/cmdline" 2>/dev/null | grep -qE '[b]in/snakemake |/scripts/[a-z0-9_]+\.py --'; then \
	    live="$$live $${p#/proc/}"; fi; done; \
	  [ -z "$$live" ] || { echo "resume: parts of a run still work here (processes$$live): wait for them, or stop them first" >&2; exit 2; }
	@[ -z "$$CONFIG" ] || [ -r "$$CONFIG" ] || { echo "resume: $$CONFIG: no such file" >&2; exit 2; }
	@set --; [ -z "$$CONFIG" ] || set -- "$$@" --configfile "$$CONFIG"; [ -z "$$RUN" ] || set -- "$$@" --config "run=$$RUN"; \
	  .venv/bin/snakemake --unlock "$$@" && .venv/bin/snakemake --cores $(CORES) --rerun-incomplete "$$@"

test: setup ## all tests but those that need a cluster
	@$(py) -m pytest -n 3 --dist worksteal -m 'not cluster'

test-cluster: setup ## the tests that bring up a small SLURM (as root)
	@[ "$$(id -u)" = 0 ] || { echo "test-cluster: needs root, to start SLURM's daemons: sudo make test-cluster" >&2; exit 2; }
	@command -v slurmctld >/dev/null || command -v apt-get >/dev/null || { echo "test-cluster: needs SLURM (slurmctld, slurmd, munged)" >&2; exit 2; }
	@$(py) -m pytest -m cluster

lint: setup ## what CI checks before the tests
	@$(py) -m ruff check
	@$(py) -m ruff format --check
	@.venv/bin/snakefmt --check Snakefile rules
	@$(py) -m mypy
	@.venv/bin/codespell
	@$(py) -m reelmill generate --check
	@.venv/bin/snakemake --lint --configfile tests/workflow/lint/config.yaml

format: setup ## mend what lint says about form
	@$(py) -m ruff check --fix --exit-zero
	@$(py) -m ruff format
	@.venv/bin/snakefmt Snakefile rules

clean: ## remove .venv and caches, never data/ or results/
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find benchmarks scripts src tests -name __pycache__ -type d -prune -exec rm -rf {} +
