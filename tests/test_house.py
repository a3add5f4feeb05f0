"""Banned patterns that the linter has no rule for, each with its reason. Those it can see are in pyproject.toml (banned-api)."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
# In two parts here, so that this file does not find itself.
DATAPACK_FOLDER = "shared/" + "datapack"


def is_call_of(node: ast.AST, name: str) -> bool:
    """Return whether a node calls a plain name, such as the built-in of that name."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name


def is_shell(node: ast.AST) -> bool:
    """Return whether a node is a call with shell=True."""
    return isinstance(node, ast.Call) and any(k.arg == "shell" and not (isinstance(k.value, ast.Constant) and k.value.value is False) for k in node.keywords)


BANNED = {
    "hash()": (lambda node: is_call_of(node, "hash"), "differs from one process to the next for str and bytes: use shardwork.digests"),
    "eval() or exec()": (lambda node: is_call_of(node, "eval") or is_call_of(node, "exec"), "runs what a table or a config holds"),
    "shell=True": (is_shell, "an id such as $(id) is run: pass a list"),
}

EXAMPLES = {"hash()": "hash('a')", "eval() or exec()": "eval('1')", "shell=True": "subprocess.run('ls', shell=True)"}


def found_in(source: str, pattern: str) -> list[int]:
    """Return the lines on which a banned pattern stands."""
    matches, _ = BANNED[pattern]
    return [node.lineno for node in ast.walk(ast.parse(source)) if isinstance(node, ast.expr) and matches(node)]


@pytest.mark.parametrize("pattern", BANNED)
def test_no_banned_pattern_in_libraries_and_scripts(pattern):
    files = [*sorted((ROOT / "src").rglob("*.py")), *sorted((ROOT / "scripts").glob("*.py"))]
    found = [f"{path.relative_to(ROOT)}:{line}" for path in files for line in found_in(path.read_text(), pattern)]
    assert found == [], BANNED[pattern][1]


@pytest.mark.parametrize("pattern", BANNED)
def test_each_banned_pattern_is_found_where_it_stands(pattern):
    assert found_in(EXAMPLES[pattern], pattern) == [1]


def test_only_ci_knows_where_the_real_data_lies():
    files = [path for folder in ("src", "scripts", "rules", "config", "tests", "docs", "envs") for path in sorted((ROOT / folder).rglob("*")) if path.is_file()]
    named = [str(path.relative_to(ROOT)) for path in files if path.suffix != ".pyc" and DATAPACK_FOLDER.encode() in path.read_bytes()]
    assert named == [], "tests find real data by REELMILL_DATAPACK, so that they run anywhere"


def test_rules_do_not_read_the_working_directory_or_the_clock():
    banned = {
        r"\bos\.getcwd\(|Path\.cwd\(|\$PWD": "paths are relative, a moved clone must rerun nothing",
        r"\btime\.time\(|datetime\.now": "rerun-triggers see params",
    }
    files = [ROOT / "Snakefile", *sorted((ROOT / "rules").glob("*.smk"))]
    found = [f"{path.name}: {pattern}: {why}" for path in files if path.exists() for pattern, why in banned.items() if re.search(pattern, path.read_text())]
    assert found == []
