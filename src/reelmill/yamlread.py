"""Strict reading of YAML configuration files: what YAML silently reads as something else is an error with file and line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from reelmill.codes import E_CONFIG_KEY, E_CONFIG_MISSING, E_CONFIG_TYPE, E_CONFIG_YAML, ConfigError
from shardwork import jsonio
from shardwork.errors import DataError

KeyPath = tuple[str | int, ...]

_TAG = "tag:yaml.org,2002:"
_OCTAL = re.compile(r"[-+]?0[0-7_]+")
_MERGE = f"{_TAG}merge"


class Mark(NamedTuple):
    """Where a value stands in its file (line, from 1) and what was written there."""

    line: int
    written: str


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """One configuration file: its values, and for every key path where it stands."""

    path: Path
    values: dict[str, Any]
    marks: Mapping[KeyPath, Mark] = field(default_factory=dict)


def read_config_file(path: Path) -> ConfigFile:
    """Return the values of a YAML (or .json) file.

    Raises ConfigError: E_CONFIG_MISSING if it is not there, E_CONFIG_YAML for syntax, duplicate keys and values that are not what they look
    like, E_CONFIG_KEY for keys that are no text, E_CONFIG_TYPE if it holds no keys at top level.
    """
    text = _text(path)
    try:
        if path.suffix == ".json":
            return ConfigFile(path, _section(jsonio.loads(text, path), path))
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        walk = _Walk(path)
        if node is not None:
            walk.visit(node, ())
        if walk.problems:
            raise ConfigError(walk.problems)
        return ConfigFile(path, _section(None if node is None else loader.construct_document(node), path), walk.marks)
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        raise ConfigError([_syntax(path, text, error)]) from error
    except RecursionError as error:
        raise ConfigError([_bad(path, "it is nested too deeply to read", "a few levels of keys", "see config/README.md for every key")]) from error
    except DataError as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError([DataError(E_CONFIG_YAML, error.where, error.found, error.expected, error.hint)]) from error


def read_scalar(text: str) -> object:
    """Return what YAML makes of one value, such as 3 of "3"; the text itself if YAML makes nothing sound of it."""
    try:
        node = yaml.SafeLoader(text).get_single_node()
        return text if not isinstance(node, yaml.ScalarNode) or trap(node) else yaml.safe_load(text)
    except (yaml.YAMLError, ValueError):
        return text


def trap(node: Any) -> tuple[str, str] | None:
    """Return what a plain value is silently read as and what to write instead, or None if it is what it looks like.

    node : a yaml.ScalarNode, resolved.   Source: the YAML 1.1 types int, float and timestamp.
    """
    kind, text = node.tag.removeprefix(_TAG), node.value
    if kind == "timestamp":
        return "a date", f"write '{text}' with the quotes"
    if kind in ("int", "float") and ":" in text:
        return "a number to base 60", f"write '{text}' with the quotes if it is text"
    if kind == "int" and _OCTAL.fullmatch(text):
        plain = text.lstrip("+-0_") or "0"
        return f"the octal number {int(text.replace('_', ''), 8)}", f"write {plain} for the number, '{text}' with the quotes for text"
    return None


class _Walk:
    """Collect marks and problems of a file's nodes before any value is made of them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: set[int] = set()
        self._open: set[int] = set()
        self.problems: list[DataError] = []
        self.marks: dict[KeyPath, Mark] = {}

    def visit(self, node: Any, where: KeyPath) -> None:
        """Visit one node and what is below it, an anchor only where it is named first."""
        if id(node) in self._open:
            self._report(node, where, "an anchor that holds itself", "sections that end", "write the values out")
        if id(node) in self._seen:
            return
        self._seen.add(id(node))
        self._open.add(id(node))
        if isinstance(node, yaml.MappingNode):
            self._visit_keys(node, where)
        elif isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                self._mark(item, (*where, index))
                self.visit(item, (*where, index))
        elif (found := trap(node)) is not None:
            self._report(node, where, f"{node.value}, which YAML reads as {found[0]}", "a plain number, true, false or text", found[1])
        self._open.discard(id(node))

    def _visit_keys(self, node: Any, where: KeyPath) -> None:
        first: dict[object, int] = {}
        for key, value in node.value:
            if key.tag == _MERGE:
                self.visit(value, where)
                continue
            if not isinstance(key, yaml.ScalarNode) or key.tag != f"{_TAG}str":
                written = key.value if isinstance(key, yaml.ScalarNode) else "in brackets"
                kind = key.tag.removeprefix(_TAG)
                self._report(key, where, f"the key {written}, which YAML reads as {kind}", "a name as key", "see config/README.md for every key", E_CONFIG_KEY)
                continue
            line = key.start_mark.line + 1
            here = (*where, key.value)
            if key.value in first:
                hint = f"it stands in line {first[key.value]} too, and YAML would silently take the last: keep one"
                self._report(key, here, "the key stands twice", "each key once", hint)
            first.setdefault(key.value, line)
            self._mark(value, here, key)
            self.visit(value, here)

    def _mark(self, node: Any, where: KeyPath, key: Any = None) -> None:
        written = node.value if isinstance(node, yaml.ScalarNode) else ""
        self.marks[where] = Mark((key or node).start_mark.line + 1, written)

    def _report(self, node: Any, where: KeyPath, found: str, expected: str, hint: str, code: str = E_CONFIG_YAML) -> None:
        place = f"{self._path}:{node.start_mark.line + 1}"
        self.problems.append(DataError(code, f"{place}: {dotted(where)}" if where else place, found, expected, hint))


def dotted(where: KeyPath) -> str:
    """Return a key path as people write it: events.num_bins."""
    return ".".join(str(part) for part in where)


def leaves(values: Mapping[str, Any], where: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Yield every value that is no section, with its key path."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from leaves(value, (*where, key))
        else:
            yield (*where, key), value


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` with the values of `over` in place of its own, section by section, as Snakemake merges configuration files."""
    merged = dict(base)
    for key, value in over.items():
        old = merged.get(key)
        merged[key] = merge(old if isinstance(old, Mapping) else {}, value) if isinstance(value, Mapping) else value
    return merged


def _bad(where: object, found: str, expected: str, hint: str) -> DataError:
    return DataError(E_CONFIG_YAML, where, found, expected, hint)


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
    except OSError as error:
        reason = "no such file" if isinstance(error, FileNotFoundError) else f"cannot be read ({error.strerror})"
        hint = "correct the path given to --configfile; config/config.yaml is one to copy"
        raise ConfigError([DataError(E_CONFIG_MISSING, path, reason, "a configuration file", hint)]) from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError([_bad(f"{path}:{line}", f"byte 0x{data[error.start]:02x} is not UTF-8", "text in UTF-8", "save the file as UTF-8")]) from error
    if not text.strip():
        raise ConfigError([_bad(path, "nothing in it", "keys and values", "start from a copy of config/config.yaml")])
    return text


def _section(value: Any, path: Path) -> dict[str, Any]:
    if value is None:
        raise ConfigError([_bad(path, "nothing but comments", "keys and values", "start from a copy of config/config.yaml")])
    if not isinstance(value, dict):
        kind = "a list" if isinstance(value, list) else "a single value"
        hint = "see config/README.md for every key"
        raise ConfigError([DataError(E_CONFIG_TYPE, path, f"{kind} at top level", "keys with values, such as `run: demo`", hint)])
    return value


def _syntax(path: Path, text: str, error: Exception) -> DataError:
    """Return a YAML library's complaint as one line with file and line."""
    mark = getattr(error, "problem_mark", None)
    what, line = str(getattr(error, "problem", None) or error).replace("\n", " "), None if mark is None else mark.line + 1
    hint = "mend the line; see config/config.yaml for the form"
    if isinstance(error, yaml.reader.ReaderError):
        line = text.count("\n", 0, error.position) + 1
        what, hint = f"the character #x{error.character:04x}", "take it out: it is invisible in most editors"
    elif r"'\t'" in what:
        what, hint = "a tab", "indent with spaces: YAML takes no tabs"
    elif "more documents" in str(error) or "single document" in str(error.args):
        what, hint = "a second document (`---`)", "keep one document a file"
    return _bad(path if line is None else f"{path}:{line}", what, "sound YAML", hint)
