"""Strict reading: every YAML trap is refused with its file and line, and what looks like one but is not passes."""

from __future__ import annotations

from pathlib import Path

import pytest

from reelmill.codes import ConfigError
from reelmill.yamlread import Mark, merge, read_config_file, read_scalar

TRAPS = [
    ("run: 0123\n", "1: run: 0123, which YAML reads as the octal number 83", "write 123 for the number, '0123' with the quotes for text"),
    ("a:\n  b: -010\n", "2: a.b: -010, which YAML reads as the octal number -8", "write 10 for the number"),
    ("a: [1, 017]\n", "1: a.1: 017, which YAML reads as the octal number 15", "write 17"),
    ("run: 12:30\n", "1: run: 12:30, which YAML reads as a number to base 60", "write '12:30' with the quotes"),
    ("run: 1:30.5\n", "1: run: 1:30.5, which YAML reads as a number to base 60", "write '1:30.5' with the quotes"),
    ("run: 2024-01-01\n", "1: run: 2024-01-01, which YAML reads as a date", "write '2024-01-01' with the quotes"),
    ("run: 2024-13-45\n", "1: run: 2024-13-45, which YAML reads as a date", "with the quotes"),
    ("run: a\nrun: b\n", "2: run: the key stands twice", "it stands in line 1 too"),
    ("a:\n  b:\n    c: 1\n    d: 2\n    c: 3\n", "5: a.b.c: the key stands twice", "it stands in line 3 too"),
    ("{run: a, run: b}\n", "1: run: the key stands twice", "it stands in line 1 too"),
    ("a: 1\n\tb: 2\n", "2: a tab", "indent with spaces"),
    ("a:\n\tb: 2\n", "2: a tab", "indent with spaces"),
    ("a: 1\nb: \0\n", "2: the character #x0000", "take it out"),
    ("a: 1\n---\na: 2\n", "2: a second document", "one document a file"),
    ("a: [1, 2\n", "2: ", "mend the line"),
    ("a: b: c\n", "1: mapping values are not allowed here", "mend the line"),
    ("a: *b\n", "1: found undefined alias 'b'", "mend the line"),
    ("a: !!python/name:os.system\n", "1: could not determine a constructor", "mend the line"),
    ("a: &a\n  b: *a\n", "1: a.b: an anchor that holds itself", "write the values out"),
    (b"a: 1\nb: \xe9\n", "2: byte 0xe9 is not UTF-8", "save the file as UTF-8"),
    ("run: demo\n".encode("utf-16"), "1: byte 0xff is not UTF-8", "save the file as UTF-8"),
]


@pytest.mark.parametrize(("text", "said", "hint"), TRAPS)
def test_trap_is_refused_with_its_line(tmp_path: Path, text: str | bytes, said: str, hint: str) -> None:
    path = tmp_path / "run.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError) as caught:
        read_config_file(path)
    assert str(caught.value).startswith(f"{path}:{said}") and hint in str(caught.value) and caught.value.code == "E_CONFIG_YAML"


@pytest.mark.parametrize("text", ["", " \n\n", "# only a comment\n", "---\n"])
def test_empty_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"run.yaml: nothing .*expected keys and values.*\[E_CONFIG_YAML\]"):
        read_config_file(path)


def test_too_deep_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("[" * 3000)
    with pytest.raises(ConfigError, match=r"nested too deeply.*\[E_CONFIG_YAML\]"):
        read_config_file(path)


def test_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot be read \(Is a directory\).*\[E_CONFIG_MISSING\]"):
        read_config_file(tmp_path)


def test_every_trap_of_a_file_is_found_at_once(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("a: 0123\nb: 12:30\nb: 1\n")
    with pytest.raises(ConfigError) as caught:
        read_config_file(path)
    assert [problem.where for problem in caught.value.problems] == [f"{path}:1: a", f"{path}:2: b", f"{path}:3: b"]


def test_quoted_and_harmless_values_pass(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("a: '0123'\nb: \"12:30\"\nc: 0\nd: 0.5\ne: isal:1\nf: -7\ng: no\nh: '2024-01-01'\ni: 10:00am\n")
    values = {"a": "0123", "b": "12:30", "c": 0, "d": 0.5, "e": "isal:1", "f": -7, "g": False, "h": "2024-01-01", "i": "10:00am"}
    assert read_config_file(path).values == values


def test_marks_say_line_and_writing(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("# comment\nrun: demo\nevents:\n  prune: no\n")
    marks = read_config_file(path).marks
    assert marks[("run",)] == Mark(2, "demo") and marks[("events", "prune")] == Mark(4, "no") and marks[("events",)].line == 3


def test_merge_replaces_values_and_joins_sections() -> None:
    base = {"a": 1, "s": {"x": 1, "y": {"z": 1}}, "t": {"u": 1}}
    assert merge(base, {"s": {"y": {"w": 2}}, "t": 3, "a": {"b": 1}}) == {"a": {"b": 1}, "s": {"x": 1, "y": {"z": 1, "w": 2}}, "t": 3}
    assert base == {"a": 1, "s": {"x": 1, "y": {"z": 1}}, "t": {"u": 1}}


def test_merge_agrees_with_snakemake() -> None:
    update_config = pytest.importorskip("snakemake.utils").update_config
    base, over = {"a": 1, "s": {"x": 1, "y": 2}}, {"s": {"y": 3, "n": {"m": 1}}, "b": [1]}
    merged = merge(base, over)
    update_config(base, over)
    assert merged == base


@pytest.mark.parametrize(("text", "value"), [("3", 3), ("true", True), ("1.5", 1.5), ("1e3", "1e3"), ("0123", "0123"), ("[1", "[1"), ("[1]", "[1]"), ("", "")])
def test_scalar_is_what_yaml_makes_of_it_unless_it_is_a_trap(text: str, value: object) -> None:
    found = read_scalar(text)
    assert found == value and type(found) is type(value)
