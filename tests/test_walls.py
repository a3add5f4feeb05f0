"""The walls between libraries: a fresh interpreter shows what each loads, and the source shows who may import whom."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parent.parent / "src"
OURS = {"shardwork", "eventvox", "sam3dvid", "vidlatents", "reelmill"}

# pydantic and PyYAML, with what they bring along.
CONFIG = {"pydantic", "pydantic_core", "annotated_types", "typing_extensions", "typing_inspection", "yaml", "_yaml"}

# Where the only imports of a heavy package are, and why nowhere else.
ROOMS = {
    "bpy": ("sam3dvid/blender/", "Blender takes over the process and pins numpy: a reader or validator must not need it"),
    "pandas": ("eventvox/manifest_read.py", "readers of the data and the launcher must not need it"),
    "requests": ("sam3dvid/fetch/", "everything else works without a network"),
    "objaverse": ("sam3dvid/fetch/", "everything else works without a network"),
    "torch": ("vidlatents/", "the other datasets are read without torch"),
}

PROGRAM = """
import importlib, json, sys
# The environment's own start-up files (.pth) may load modules: what they loaded is not ours.
before = set(sys.modules)
for name in sys.argv[1:]:
    importlib.import_module(name)
print(json.dumps(sorted({name.partition('.')[0] for name in set(sys.modules) - before} - sys.stdlib_module_names)))
"""


def third_party(*modules: str) -> set[str]:
    """Return the top-level names, ours and the standard library's left out, that a fresh interpreter loads for these modules."""
    done = subprocess.run([sys.executable, "-c", PROGRAM, *modules], capture_output=True, text=True, check=False, env={"PYTHONPATH": str(SRC)})
    assert done.returncode == 0, done.stderr
    # Names that compilers, build settings and the process pool leave behind are no packages.
    return {name for name in json.loads(done.stdout) if not name.startswith(("_cython", "cython_runtime", "_sysconfigdata", "__mp_main__"))} - OURS


def modules_of(library: str) -> list[str]:
    """Return the names of all modules of a library."""
    return sorted(".".join(path.relative_to(SRC).with_suffix("").parts).removesuffix(".__init__") for path in (SRC / library).rglob("*.py"))


def imports(path: Path) -> set[str]:
    """Return every module that a file imports, at its top or inside a function."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add("." * node.level + (node.module or ""))
    return found


def sources(*libraries: str) -> list[Path]:
    """Return the Python files of these libraries."""
    return [path for library in libraries for path in sorted((SRC / library).rglob("*.py"))]


@pytest.mark.parametrize(
    ("module", "allowed"),
    [
        ("eventvox", set()),
        # The launcher loads these two while it parses the rules.
        ("eventvox.stage", set()),
        ("eventvox.manifest_settings", set()),
        ("eventvox.timing", {"numpy", "h5py"}),
        ("eventvox.validate", {"numpy", "h5py"}),
        ("eventvox.reader", {"numpy", "h5py"}),
        ("eventvox.release", set()),
        ("eventvox.release_check", set()),
        ("sam3dvid", set()),
        # The launcher loads these three while it parses the rules.
        ("sam3dvid.stage", set()),
        ("sam3dvid.assets.filters", set()),
        ("sam3dvid.composite.books", set()),
        ("sam3dvid.assets.audit", set()),
        ("sam3dvid.conventions", {"numpy"}),
        ("sam3dvid.export_reader", {"numpy", "PIL"}),
        ("sam3dvid.sam3d", {"numpy"}),
        ("vidlatents", set()),
        # The launcher loads these while it parses the rules.
        ("vidlatents.stage", set()),
        ("vidlatents.card", set()),
        ("vidlatents.records", set()),
        ("vidlatents.buckets", set()),
        ("vidlatents.codes", set()),
        ("vidlatents.sources", set()),
        ("vidlatents.members", set()),
        ("vidlatents.settings", set()),
        # Planning and reading need neither torch nor, until a video is opened, PyAV.
        ("vidlatents.plan", {"numpy"}),
        ("vidlatents.read", {"numpy"}),
        ("vidlatents.cost", set()),
        # The table of models, and a look at sizes and checksums, need no torch.
        ("vidlatents.models", set()),
        ("vidlatents.verify", set()),
        ("reelmill", set()),
        ("reelmill.config", CONFIG),
        ("shardwork", set()),
    ],
)
def test_a_fresh_interpreter_loads_only_the_allowed_packages(module, allowed):
    assert third_party(module) - allowed == set()


def test_every_module_of_shardwork_but_the_random_streams_loads_without_packages():
    assert third_party(*(name for name in modules_of("shardwork") if name != "shardwork.streams")) == set()


def test_the_wall_test_sees_a_package_that_is_loaded():
    assert "numpy" in third_party("shardwork.streams")


@pytest.mark.parametrize("library", sorted(OURS))
def test_libraries_import_only_themselves_and_shardwork(library):
    others = OURS - {library, "shardwork"}
    crossed = [f"{path.relative_to(SRC)}: {name}" for path in sources(library) for name in imports(path) if name.partition(".")[0] in others]
    assert crossed == [], "libraries meet in files, not in imports"


def test_libraries_do_not_import_scripts_or_snakemake():
    scripts = {path.stem for path in (SRC.parent / "scripts").glob("*.py")} | {"scripts", "snakemake"}
    crossed = [f"{path.relative_to(SRC)}: {name}" for path in sources(*OURS) for name in imports(path) if name.partition(".")[0] in scripts]
    assert crossed == []


@pytest.mark.parametrize("package", sorted(ROOMS))
def test_a_heavy_package_stays_in_its_room(package):
    room, reason = ROOMS[package]
    files = [*sources(*OURS), *sorted((SRC.parent / "scripts").glob("*.py"))]
    outside = [
        str(path.relative_to(SRC.parent))
        for path in files
        if not path.is_relative_to(SRC / room) and any(name.partition(".")[0] == package for name in imports(path))
    ]
    assert outside == [], reason
