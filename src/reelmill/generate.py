"""Pages made from the code: config/README.md and the JSON Schema from the config model, docs/troubleshooting.md from the code tables."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from reelmill.config import Config
from reelmill.problems import section_schema, words
from shardwork.errors import DataError
from shardwork.files import write_bytes

ROOT = Path(__file__).resolve().parents[2]
COMMAND = "python -m reelmill generate --write"
CODE_TABLES = {
    "shardwork.errors": "Any stage",
    "reelmill.codes": "Configuration",
    "eventvox.codes": "Events",
    "sam3dvid.codes": "Assets, backgrounds and clips",
    "vidlatents.codes": "Latents",
}
"""Modules that hold a table CODES, and the heading of each on the page. One that is not there yet is left out."""

CONFIG_INTRO = """\
# The configuration, key by key

A run is described by one YAML file. `config.yaml` is the demo, and what Snakemake reads if you name no file; `events_v1.yaml` is a full production
run of events, `m1_polyhaven.yaml` one of evaluation clips, `m2.yaml` one of training clips, `latents_giga.yaml` one of latents of your own videos.
To make your own, copy one of them, give it another `run`, and name it when you start:

    .venv/bin/snakemake --cores all --configfile config/my_run.yaml

- Only `run` and the `table` of a section are required. Every other key has the default shown here.
- Each dataset, and each kind of input, is one section. Leave a section out and its branch is switched off.
- Everything is checked before anything runs: a key that does not exist is an error that names the nearest one, and a value of the wrong kind is an
  error with file and line. `.venv/bin/python -m reelmill config --configfile config/my_run.yaml` checks a file and prints it with all defaults;
  `.venv/bin/python -m reelmill doctor --configfile config/my_run.yaml` checks the machine too, and `estimate` in its place says what the run will take.
- One value for one run: `.venv/bin/snakemake --config run=test 'events={workers: 4}'`.
- YAML has traps: `no` is false, `0123` is 83, `12:30` is 750, `1e3` is text. They are errors here; the message says what to write.
- Editors that know JSON Schema show these texts as you type, from `workflow/schemas/config.schema.json`.
"""

TROUBLE_INTRO = """\
# When things go wrong

## Read the error line

Every error that you can mend is one line of the same form: where, what was found, what was expected, what to do, and a code that stands in the
tables below.

    error: v_0041.mp4: decoded 0 of 312 frames, expected at least 2: re-encode it or take it out of the table [no_frames]

- **An item that fails is set aside, and the run goes on.** It becomes a row with its code in the shard's manifest; everything else is built. At the
  very end the step `gate` fails the run if more items were set aside than `max_quarantined` allows, and lists them.
- **A code that begins with `fault_` is trouble with the machine or the program**, never with your data: a full disk, too little memory, a kill. The
  step stops and can be run again.
- **A code that begins with `E_CONFIG_` stops the run before it starts.** `.venv/bin/python -m reelmill doctor` finds these, and most troubles of a machine.

## Go on after a stop

Run `make resume`, or the same `snakemake` command again. Finished items are kept: each shard has a journal of what it published, and only what is not
in it is computed. Nothing half written ever has a final name, so there is nothing to clean up, not even after a power cut.

## Locks

- *"Directory cannot be locked"* comes from Snakemake: another `snakemake` runs in this folder, or one was killed. If none is running, `.venv/bin/snakemake
  --unlock` takes the lock away; `make resume` does that for you.
- `fault_busy` means that another process works on the same work shard. Wait for it; the lock ends with the process, however it ends.

## Logs

- `results/<run>/logs/` holds a log for every job, and beside it the benchmark with time and memory. The path of a failed job's log stands in
  Snakemake's message.
- `.snakemake/log/` holds what Snakemake itself printed.
- On a cluster, what the job scheduler caught is where the profile says (`profiles/slurm/`).
- `results/<run>/<stage>/quarantine/` holds files that were set aside, for you to look at.

## Every code
"""


def pages(root: Path = ROOT) -> dict[Path, str]:
    """Return the text of every generated page, by its path below `root`."""
    return {
        root / "config/README.md": config_page(),
        root / "workflow/schemas/config.schema.json": json.dumps(config_schema(), indent=2, ensure_ascii=False) + "\n",
        root / "docs/troubleshooting.md": trouble_page(),
    }


def write(root: Path = ROOT) -> list[Path]:
    """Write every page that differs from what it should hold; return their paths."""
    stale = [path for path, text in pages(root).items() if _current(path) != text]
    for path in stale:
        write_bytes(path, pages(root)[path].encode())
    return stale


def differences(root: Path = ROOT) -> list[str]:
    """Return the lines of a diff between the pages as they are and as they should be: empty if they agree."""
    lines: list[str] = []
    for path, text in pages(root).items():
        name = path.relative_to(root).as_posix()
        lines += difflib.unified_diff(_current(path).splitlines(), text.splitlines(), f"{name} (as it is)", f"{name} (as it should be)", lineterm="")
        if _current(path) != text and not lines:
            lines.append(f"{name}: line ends differ")
    return lines


def config_schema() -> dict[str, Any]:
    """Return the JSON Schema of a configuration file."""
    schema = Config.model_json_schema()
    plain = _without_titles(schema)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Reelmill configuration", **plain}


def _without_titles(part: Any) -> Any:
    """Return a schema without pydantic's titles, which only repeat the names, without line breaks in its texts, and without the null that stands
    for a section left out.
    """
    if isinstance(part, list):
        return [_without_titles(item) for item in part]
    if not isinstance(part, dict):
        return " ".join(part.split()) if isinstance(part, str) else part
    choices = [choice for choice in part.get("anyOf", []) if choice.get("type") != "null"]
    if len(choices) == 1:
        part = {key: value for key, value in part.items() if key not in ("anyOf", "default")} | choices[0]
    return {key: _without_titles(value) for key, value in part.items() if not (key == "title" and isinstance(value, str))}


def config_page() -> str:
    """Return config/README.md: a table of keys for each section."""
    schema = Config.model_json_schema()
    lines = [CONFIG_INTRO]
    for title, where in (("The run", ()), *((f"Section `{'.'.join(where)}`", where) for where in _sections(schema))):
        part = section_schema(schema, where)
        lines += [f"## {title}", "", str(part["description"]), "", "| key | takes | default | meaning |", "|---|---|---|---|"]
        lines += [*_key_rows(part, schema, where), ""]
    lines.append(f"This page is made by `{COMMAND}`.")
    return "\n".join(lines) + "\n"


def _sections(schema: Mapping[str, Any], where: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the key path of every section, each before those inside it."""
    for key in section_schema(schema, where)["properties"]:
        inner = (*where, key)
        if "properties" in section_schema(schema, inner):
            yield inner
            yield from _sections(schema, inner)


def _key_rows(part: Mapping[str, Any], schema: Mapping[str, Any], where: tuple[str, ...]) -> Iterator[str]:
    for key, entry in part["properties"].items():
        target = section_schema(schema, (*where, key))
        if "properties" in target:
            default = "left out" if entry.get("default") is None else "as below"
        else:
            default = "required" if key in part.get("required", []) else "left out"
            if entry.get("default") is not None:
                default = f"`{json.dumps(entry['default']).strip(chr(34))}`"
        yield f"| `{key}` | {_cell(words(target))} | {default} | {_cell(entry.get('description') or target['description'])} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")


def trouble_page() -> str:
    """Return docs/troubleshooting.md: what to do, then every code of every library that is there."""
    lines = [TROUBLE_INTRO]
    for module, title in CODE_TABLES.items():
        if codes := _codes(module):
            lines += [f"### {title}", "", *_code_rows(codes, getattr(importlib.import_module(module), "HINTS", {})), ""]
    lines.append(f"This page is made by `{COMMAND}`.")
    return "\n".join(lines) + "\n"


def _code_rows(codes: Mapping[str, str], hints: Mapping[str, str]) -> Iterator[str]:
    """Yield a table of codes, with what to do where the library says it for every code alike."""
    yield "| code | meaning | what to do |" if hints else "| code | meaning |"
    yield "|---|---|---|" if hints else "|---|---|"
    for code, text in sorted(codes.items()):
        yield f"| `{code}` | {_cell(text)} |" + (f" {_cell(hints.get(code, ''))} |" if hints else "")


def _codes(module: str) -> Mapping[str, str]:
    """Return a library's code table; empty if the library is not there. By name, since libraries do not import each other."""
    try:
        if importlib.util.find_spec(module) is None:
            return {}
    except ModuleNotFoundError:
        return {}
    codes = importlib.import_module(module).CODES
    if not codes or not all(isinstance(text, str) and text for text in codes.values()):
        raise DataError("bad_argument", module, "a code table that is empty or has a code without a meaning", "a sentence for every code", "fill it in")
    return dict(codes)


def _current(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "replace") if path.is_file() else ""
