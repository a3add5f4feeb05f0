"""The doctor: quick checks of this machine, its environment and a configuration, each with what mends it."""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from reelmill import machine, packages, syslibs
from reelmill.config import AssetsConfig, Config, EventsConfig, PolyhavenConfig, Sa1bConfig, load
from shardwork.errors import DataError
from shardwork.ids import HUB_ID
from shardwork.tables import read_table

PYTHON_VERSION = (3, 11)
IMPORTS = {
    "events": ("numpy", "cv2", "av", "h5py"),
    "assets": ("bpy", "trimesh", "numba"),
    "backgrounds": ("cv2", "PIL", "OpenEXR"),
    "clips": ("bpy", "numpy", "cv2", "numba", "trimesh", "PIL", "yaml"),
    "latents": ("torch", "diffusers", "transformers", "av", "ftfy"),
}
"""The packages that the steps of a section load, and that are known to fail on some machines."""
HUB = {"wan21": "Wan-AI/Wan2.1-T2V-1.3B-Diffusers", "wan22-5b": "Wan-AI/Wan2.2-TI2V-5B-Diffusers"}
"""Where the released weights of a `latents.model` are, on huggingface.co: as in `vidlatents.models`."""
GET_MODEL = ".venv/bin/hf download {} --include 'vae/*' 'text_encoder/*' 'tokenizer/*' --local-dir FOLDER, and name FOLDER"
GET_OTHER = "name a folder that save_pretrained wrote, or a hub id: no weights of {} were released"
MODEL_PARTS = {"weights": "vae", "text_encoder": "text_encoder"}
"""What of a pipeline's folder a key of latents names."""
POOL_SELECTION = "selection.json"
"""The file that freezes a pool of backgrounds."""
CLIP_ASSETS = 4
"""Assets of its split that planning needs."""
IMPORT_SECONDS = 60
MIN_FREE_BYTES, GOOD_FREE_BYTES = 1 << 30, 20 << 30
MIN_INODES, GOOD_INODES = 1_000, 100_000
MIN_MEMORY_BYTES, GOOD_MEMORY_BYTES = 1 << 30, 4 << 30
"""A worker that makes events holds a few hundred MB; Snakemake and the system want their share too."""
GOOD_FILES = 1024

Status = Literal["ok", "warning", "failure"]


@dataclass(frozen=True, slots=True)
class Check:
    """One check: its name, how it went, what was found, and what mends it (empty if nothing must be)."""

    name: str
    status: Status
    found: str
    mend: str = ""

    def as_dict(self) -> dict[str, str]:
        """Return the check as JSON can hold it."""
        return asdict(self)


def examine(configfiles: Sequence[Path] = ()) -> list[Check]:
    """Return every check of this machine, and of a configuration if files are given."""
    checks, config = check_config(configfiles) if configfiles else ([], None)
    results = Path(config.results if config else "results")
    pins = packages.read_pins()
    launcher = packages.is_launcher(pins)
    interpreter = config.python if config and config.python != "python" else "" if launcher else sys.executable
    working = [*_sections(config), *([section for section in (config.clips, config.latents) if section] if config else [])]
    workers = max((section.workers for section in working), default=1)
    modules = dict.fromkeys(name for section, names in IMPORTS.items() if config is None or getattr(config, section) for name in names)
    return [
        *checks,
        check_python(),
        *check_packages(pins, ("base", "workflow") if launcher else ("base", *packages.REQUIRED_EXTRAS)),
        check_imports(interpreter, tuple(modules)),
        check_libraries(needed=config is not None and (config.assets or config.clips) is not None),
        check_cores(workers),
        check_memory(),
        check_files(),
        *check_disk(results),
    ]


def failed(checks: Sequence[Check]) -> bool:
    """Return whether any check says that a run cannot work."""
    return any(check.status == "failure" for check in checks)


def lines(checks: Sequence[Check]) -> list[str]:
    """Return the checks as lines for people, and a last one that sums them up."""
    shown = [f"{check.status:<8} {check.name}: {check.found}" + (f" -> {check.mend}" if check.mend else "") for check in checks]
    bad, odd = (sum(check.status == status for check in checks) for status in ("failure", "warning"))
    return [*shown, f"{len(checks)} checks: {bad} to mend before a run, {odd} warning{'s' * (odd != 1)}"]


def check_config(configfiles: Sequence[Path]) -> tuple[list[Check], Config | None]:
    """Return a check for every problem of a configuration and of its tables, and the configuration if it is sound."""
    try:
        config = load(configfiles)
    except DataError as error:
        return [_from_error("config", problem) for problem in getattr(error, "problems", (error,))], None
    checks = [Check("config", "ok", ", ".join(str(path) for path in configfiles))]
    if not _sections(config) and not config.latents:
        checks.append(Check("config", "warning", "no section for any dataset", "add a section, such as events: with its table"))
    for table in (Path(section.table) for section in _sections(config) if section.table):
        if table.is_file():
            checks.append(Check("table", "ok", str(table)))
        else:
            checks.append(Check("table", "failure", f"{table} is not there", "make it, or correct `table`; paths start in the current folder"))
    polyhaven = config.backgrounds.polyhaven if config.backgrounds else None
    if polyhaven and not polyhaven.table:
        checks.append(check_pool(Path(polyhaven.pool)))
    return [*checks, *check_clips(config), *check_latents(config)], config


def check_pool(pool: Path) -> Check:
    """Return whether a pool that no table makes is there, frozen."""
    if (pool / POOL_SELECTION).is_file():
        return Check("pool", "ok", str(pool))
    return Check("pool", "failure", f"no frozen pool in {pool}", "make it with scripts/prepare_polyhaven.py, or name a table of panoramas on disk")


def check_clips(config: Config) -> list[Check]:
    """Return what keeps clips from being planned, as far as the table of assets and a pool that is frozen tell it."""
    clips, checks = config.clips, list[Check]()
    if not clips or not config.assets or not config.backgrounds:
        return checks
    try:
        count = sum(row.get("split") == clips.split for row in read_table(Path(config.assets.table), "asset_id"))
    except DataError as error:
        checks.append(_from_error("clips", error))
    else:
        if count < CLIP_ASSETS:
            found = f"{count} assets of {clips.split} in {config.assets.table}, wanted {CLIP_ASSETS} or more"
            checks.append(Check("clips", "failure", found, "correct `split`, or add assets: those of a clip are distinct"))
    index = Path(getattr(config.backgrounds, clips.pool).pool) / f"{clips.split}.jsonl"
    if index.is_file() and not index.stat().st_size:
        found = f"{index} is empty: no picture of {clips.split} in the pool"
        checks.append(Check("clips", "failure", found, "correct `split`, or build a pool of more sources, or of another eval_fraction, in a new folder"))
    return checks


def check_latents(config: Config) -> list[Check]:
    """Return whether the records of latents and their models are there. What a hub id names is not looked for."""
    latents, checks = config.latents, list[Check]()
    if not latents:
        return checks
    if latents.records:
        there = Path(latents.records).is_file()
        mend = "make it, or correct `records`; paths start in the current folder"
        checks.append(Check("records", "ok", latents.records) if there else Check("records", "failure", f"{latents.records} is not there", mend))
        for folder in latents.folders():
            if not folder.is_dir():
                checks.append(Check("records", "failure", f"no folder {folder}", "put the videos there, or set `videos` and `control_videos`"))
    for name, where in (("weights", latents.weights), ("text_encoder", latents.text_encoder or latents.weights)):
        checks.append(_model_check(name, where, MODEL_PARTS[name], _how_to_get(name, latents.model)))
    return checks


def _how_to_get(name: str, model: str) -> str:
    """Return how a missing model is had.   name : weights or text_encoder, which is the same one of every model.   model : of the configuration."""
    if name == "weights" and model not in HUB:
        return GET_OTHER.format(model)
    return GET_MODEL.format(HUB.get(model, HUB["wan21"]))


def _model_check(name: str, where: str | None, part: str, mend: str) -> Check:
    """Return whether a model is there.   where : as the configuration has it.   part : its folder in a pipeline's.   mend : how it is had."""
    if where == "tiny":
        return Check(name, "warning", "tiny: random weights", "name real ones for anything but a look: these latents train nothing")
    folder = Path(where or "")
    if where and ((folder / part / "config.json").is_file() or (folder / "config.json").is_file()):
        return Check(name, "ok", where)
    if where and (folder.exists() or not HUB_ID.fullmatch(where.partition("@")[0])):
        return Check(name, "failure", f"{where} holds no {part}/config.json", mend)
    return Check(
        name, "warning", f"{where or 'the released ones'}: fetched from the hub when they are needed", "download them first where jobs have no network"
    )


def _sections(config: Config | None) -> list[EventsConfig | AssetsConfig | PolyhavenConfig | Sa1bConfig]:
    """Return the sections of a configuration that work on a table."""
    if config is None:
        return []
    pools = (config.backgrounds.polyhaven, config.backgrounds.sa1b) if config.backgrounds else ()
    return [section for section in (config.events, config.assets, *pools) if section]


def _from_error(name: str, error: DataError) -> Check:
    return Check(name, "failure", f"{error.where}: {error.found}, expected {error.expected} [{error.code}]", error.hint)


def check_python(version: tuple[int, ...] = sys.version_info[:3]) -> Check:
    """Return whether this is the Python that everything is pinned for."""
    found = ".".join(str(part) for part in version)
    if version[:2] == PYTHON_VERSION:
        return Check("python", "ok", found)
    wanted = ".".join(str(part) for part in PYTHON_VERSION)
    why = "Blender's wheel exists for it alone, and the pinned packages are tested together on it"
    return Check("python", "failure", f"{found}, wanted {wanted}: {why}", f"make the environment again with Python {wanted}: make setup")


def check_packages(pins: Mapping[str, Sequence[packages.Pin]], required: Sequence[str]) -> list[Check]:
    """Return a check for every extra: whether its packages are there at their pinned versions.

    pins : packages.read_pins().   required : the extras without which a run cannot work.
    """
    if not pins:
        return [Check("packages", "warning", "no pyproject.toml beside src/, so versions were not compared", "run the doctor from a clone")]
    checks = []
    for extra, wanted in pins.items():
        faults = [fault for pin in wanted if (fault := packages.fault_of(pin))]
        if not faults:
            checks.append(Check(f"packages {extra}", "ok", f"{len(wanted)} at their versions"))
        elif extra in required:
            checks += [Check(f"packages {extra}", "failure", fault, "make setup") for fault in faults]
        else:
            absent = all(fault.endswith("not installed") for fault in faults)
            found = "not installed, fine for what does not need it" if absent else "; ".join(faults)
            checks.append(Check(f"packages {extra}", "ok" if absent else "warning", found, "" if absent else f"pip install -e '.[{extra}]'"))
    return checks


def check_imports(interpreter: str = sys.executable, modules: Sequence[str] = IMPORTS["events"]) -> Check:
    """Return whether the packages that steps need really load in the steps' Python, in one child process.

    interpreter : name or path; empty if steps do not run in an environment that can be looked at here.
    A package can be installed and yet fail: a missing shared library, or a build for another numpy.
    """
    if not interpreter:
        return Check("imports", "ok", "not tried: this environment starts jobs on a cluster, steps run in conda environments of their own")
    program = "import importlib, sys\nfor name in sys.argv[1:]:\n    print(name, flush=True)\n    importlib.import_module(name)\n"
    if (path := shutil.which(interpreter)) is None:
        return Check("imports", "failure", f"no Python at {interpreter!r}", "correct `python` in the configuration, or take it out")
    try:
        child = subprocess.run([path, "-c", program, *modules], capture_output=True, text=True, timeout=IMPORT_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return Check("imports", "warning", f"not done after {IMPORT_SECONDS} s", "the file system of the environment is very slow: put it on a local disk")
    if child.returncode == 0:
        return Check("imports", "ok", ", ".join(modules))
    module = (child.stdout.split() or ["python"])[-1]
    reason = (child.stderr.strip().splitlines() or [f"exit {child.returncode}"])[-1]
    if lacking := next((library for library in syslibs.LIBRARIES if library in reason), ""):
        return Check("imports", "failure", f"{module}: {reason}", f"sudo apt-get install -y {syslibs.LIBRARIES[lacking]} (see libraries below for all)")
    return Check("imports", "failure", f"{module}: {reason}", f"install it again into {path}: make setup")


def check_libraries(has: Callable[[str], bool] = syslibs.loads, needed: bool = False) -> Check:
    """Return whether the system libraries that Blender needs are there: a warning unless they are needed, since events do without."""
    missing = syslibs.required_libraries(has)
    if not missing:
        return Check("libraries", "ok", f"all {len(syslibs.LIBRARIES)} that rendering needs")
    status: Status = "failure" if needed else "warning"
    return Check("libraries", status, f"{len(missing)} that rendering needs are missing", f"sudo apt-get install -y {' '.join(missing)}")


def check_cores(workers: int, cores: float | None = None) -> Check:
    """Return whether the cores that this process may use are enough for one job's workers."""
    cores = machine.usable_cores() if cores is None else cores
    if workers <= max(cores, 1):
        return Check("cores", "ok", f"{cores:g} usable")
    return Check("cores", "warning", f"{cores:g} usable, one job starts {workers} workers", "lower `workers`, or give the process more cores")


def check_memory(memory_bytes: int | None = None) -> Check:
    """Return whether the memory that this process may use is enough."""
    memory = machine.usable_memory_bytes() if memory_bytes is None else memory_bytes
    mend = "give the machine or the container more memory, or start fewer jobs at once (--cores)"
    return _enough("memory", memory, MIN_MEMORY_BYTES, GOOD_MEMORY_BYTES, f"{memory / 2**30:.1f} GiB usable", mend)


def check_files(limit: int | None = None) -> Check:
    """Return whether a process may open enough files."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0] if limit is None else limit
    if soft == resource.RLIM_INFINITY or soft >= GOOD_FILES:
        return Check("open files", "ok", "no limit" if soft == resource.RLIM_INFINITY else str(soft))
    return Check("open files", "warning", f"only {soft}", f"ulimit -n {4 * GOOD_FILES} before the run")


def check_disk(results: Path) -> list[Check]:
    """Return checks of free space and inodes where results go, and of what its file system keeps."""
    disk = machine.disk_at(results)
    mend = "free space, or set `results` to a folder on a larger disk"
    free = _enough("disk", disk.free_bytes, MIN_FREE_BYTES, GOOD_FREE_BYTES, f"{disk.free_bytes / 2**30:.1f} GiB free at {disk.folder}", mend)
    inodes = Check("inodes", "ok", "not counted by this file system")
    if disk.free_inodes is not None:
        mend = "remove small files, or set `results` to another disk"
        inodes = _enough("inodes", disk.free_inodes, MIN_INODES, GOOD_INODES, f"{disk.free_inodes:,} free", mend)
    fault = machine.probe_folder(disk.folder)
    kept = "writes, flushes, renames and locks work"
    mend = "set `results` to a folder that you may write, on a file system with rename and locks"
    return [free, inodes, Check("file system", "failure", f"{disk.folder}: {fault}", mend) if fault else Check("file system", "ok", kept)]


def _enough(name: str, value: int, least: int, good: int, found: str, mend: str) -> Check:
    """Return a failure below `least`, a warning below `good`."""
    status: Status = "failure" if value < least else "warning" if value < good else "ok"
    return Check(name, status, found, "" if status == "ok" else mend)
