"""What is wrong with a configuration, in words: where it stands, what was expected, what to write instead."""

from __future__ import annotations

import copy
import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from reelmill.codes import E_CONFIG_KEY, E_CONFIG_MISSING, E_CONFIG_TYPE, E_CONFIG_VALUE, ConfigError
from reelmill.yamlread import ConfigFile, KeyPath, Mark, dotted, read_scalar
from shardwork.errors import DataError
from shardwork.ids import suggest_id

COMMAND_LINE = "--config"
KEY_PAGE = "config/README.md"

Schema = Mapping[str, Any]
Details = Mapping[str, Any]
"""One entry of pydantic's list of errors: type, loc, input."""

_ABSENT = object()
_KINDS: dict[type, str] = {bool: "truth", int: "whole", float: "number", str: "text", type(None): "nothing", list: "a list", dict: "a section"}
_CODES = {"extra_forbidden": E_CONFIG_KEY, "invalid_key": E_CONFIG_KEY, "missing": E_CONFIG_MISSING}


def config_error(errors: Sequence[Details], model: type[BaseModel], files: Sequence[ConfigFile]) -> ConfigError:
    """Return one error for all that pydantic found.

    errors : ValidationError.errors().   model : the top-level model.   files : what it was read from.
    """
    schema = model.model_json_schema()
    return ConfigError([_problem(details, schema, files) for details in errors])


def retype_command_line(errors: Sequence[Details], values: Mapping[str, Any], files: Sequence[ConfigFile]) -> dict[str, Any]:
    """Return `values` with the refused texts of the command line read as YAML.

    Snakemake leaves `--config prune=true` and everything inside `--config 'events={workers: 2}'` as text.
    """
    typed = copy.deepcopy(dict(values))
    for details in errors:
        where, value = details["loc"], details["input"]
        if details["type"] not in _CODES and isinstance(value, str) and _origin(where, value, files) is None:
            section = typed
            for part in where[:-1]:
                section = section[part]
            section[where[-1]] = read_scalar(value)
    return typed


def section_schema(schema: Schema, where: KeyPath) -> Schema:
    """Return the part of a JSON Schema that describes the key path `where`; empty if it describes no such key."""
    part: Schema = schema
    for key in where:
        part = _resolved(part.get("properties", {}).get(key, {}), schema)
    return part


def words(part: Schema) -> str:
    """Return in words what a key takes, such as "a whole number from 1 to 9999"."""
    if "enum" in part or "const" in part:
        return " | ".join(str(value) for value in part.get("enum", [part.get("const")]))
    if "properties" in part:
        return "keys indented below it"
    if part.get("type") in ("integer", "number"):
        noun = "a whole number" if part["type"] == "integer" else "a number"
        if "maximum" in part:
            return f"{noun} from {_digits(part['minimum'])} to {_digits(part['maximum'])}"
        return f"{noun}, {_digits(part['minimum'])} or more" if "minimum" in part else noun
    return "true or false" if part.get("type") == "boolean" else str(part.get("patternErrorMessage", "text"))


def _digits(value: float) -> str:
    """Return a bound as a person writes it: 100000000, 0.001, 1e-09."""
    return str(int(value)) if value == int(value) else f"{value:g}"


def _resolved(part: Schema, schema: Schema) -> Schema:
    """Return a property with its reference followed and its null alternative dropped."""
    for choice in part.get("anyOf", []):
        if choice.get("type") != "null":
            part = choice
    reference = part.get("$ref")
    return schema["$defs"][reference.rpartition("/")[2]] if reference else part


def _origin(where: KeyPath, value: object, files: Sequence[ConfigFile]) -> ConfigFile | None:
    """Return the file that a value comes from, or None if the command line set it."""
    for file in reversed(files):
        found: Any = file.values
        for part in where:
            found = found.get(part, _ABSENT) if isinstance(found, Mapping) else _ABSENT
        if found is not _ABSENT:
            return file if type(found) is type(value) and (found == value or found != found) else None
    return None


def _mark(file: ConfigFile, where: KeyPath) -> Mark | None:
    """Return where a key or the nearest section above it stands."""
    for end in range(len(where), 0, -1):
        if (mark := file.marks.get(where[:end])) is not None:
            return mark if end == len(where) else Mark(mark.line, "")
    return None


def _problem(details: Details, schema: Schema, files: Sequence[ConfigFile]) -> DataError:
    """Return one of pydantic's errors as ours."""
    where, kind, value = tuple(details["loc"]), details["type"], details["input"]
    if kind == "missing":
        return _missing(where, schema, files)
    if kind == "invalid_key":
        value = _ABSENT
    file = _origin(where, value, files)
    mark = None if file is None else _mark(file, where)
    place = COMMAND_LINE if file is None else str(file.path) + (f":{mark.line}" if mark else "")
    place = f"{place}: {dotted(where)}" if where else place
    if kind in ("extra_forbidden", "invalid_key"):
        hint, level = _nearest(where, schema), dotted(where[:-1])
        return DataError(E_CONFIG_KEY, place, "no such key", f"a key of {level or 'the configuration'}", hint)
    part = section_schema(schema, where)
    wrong_kind = kind.endswith("_type") or (kind == "literal_error" and _kind(value) not in {_kind(choice) for choice in _choices(part)})
    written = mark.written if mark else ""
    code = E_CONFIG_TYPE if wrong_kind else E_CONFIG_VALUE
    return DataError(code, place, _shown(value, written), words(part), _hint(where, value, written, part, file is None))


def _missing(where: KeyPath, schema: Schema, files: Sequence[ConfigFile]) -> DataError:
    """Return the error for a key that must be there."""
    place = "config" if not files else str(files[-1].path)
    for file in reversed(files):
        if where[:-1] and (mark := file.marks.get(where[:-1])) is not None:
            place = f"{file.path}:{mark.line}"
            break
    part = section_schema(schema, where)
    hint = f"write `{where[-1]}: ...`{f' below {dotted(where[:-1])}' if where[:-1] else ''}; see {KEY_PAGE}"
    return DataError(E_CONFIG_MISSING, f"{place}: {dotted(where)}", "the key is not there", words(part), hint)


def _all_keys(part: Schema, schema: Schema, where: KeyPath = ()) -> Iterator[KeyPath]:
    """Yield every key path of a schema, sections before what they hold."""
    for key, value in part.get("properties", {}).items():
        yield (*where, key)
        yield from _all_keys(_resolved(value, schema), schema, (*where, key))


def _nearest(where: KeyPath, schema: Schema) -> str:
    """Return a hint that names the nearest key: at the same level, else of the same name elsewhere, else all keys of the level."""
    level, name = where[:-1], str(where[-1])
    here = list(section_schema(schema, level).get("properties", {}))
    if near := difflib.get_close_matches(name, here, n=1, cutoff=0.65):
        return f"did you mean {dotted((*level, near[0]))}?"
    everywhere = {str(path[-1]): path for path in _all_keys(schema, schema)}
    if near := difflib.get_close_matches(name, everywhere, n=1, cutoff=0.8):
        return f"did you mean {dotted(everywhere[near[0]])}?"
    return f"the keys here are {', '.join(here)}" if here else f"see {KEY_PAGE} for every key"


def _choices(part: Schema) -> list[object]:
    return list(part.get("enum", [part["const"]] if "const" in part else []))


def _kind(value: object) -> str:
    return _KINDS.get(type(value), type(value).__name__)


def _shown(value: object, written: str) -> str:
    """Return a value as people know it: as YAML shows it, and as it was written if that differs."""
    if isinstance(value, str):
        return f"the text '{value[:60]}'" if value.isprintable() else f"the text {value[:60]!r}"
    if isinstance(value, bool):
        plain = str(value).lower()
    elif value is None or isinstance(value, list | dict):
        return "nothing after the colon" if value is None else _kind(value)
    else:
        plain = str(value)
    return f"{plain} (written `{written}`)" if written and written != plain else plain


def _hint(where: KeyPath, value: object, written: str, part: Schema, command_line: bool) -> str:
    """Return what to write instead."""
    key, wants = str(where[-1]) if where else "", part.get("type") or _kind(next(iter(_choices(part)), ""))
    if value is None:
        return "give it a value, or take the line out"
    if wants == "string" and isinstance(value, bool | int | float):
        if command_line:
            # Snakemake strips quotes from these values, all of them, so that only a YAML tag keeps a number text.
            return f"set it in the configuration file, or write --config '{key}=!!str ...' so that it stays text"
        sort = f"YAML reads {written or value} as {str(value).lower()}" if isinstance(value, bool) else "YAML reads it as a number"
        return f"{sort}: write one of the words" if _choices(part) else f"{sort}: write {key}: '{written or value}' with the quotes"
    if wants in ("integer", "number") and isinstance(value, str) and (number := _number(value, wants == "integer")):
        return f"YAML reads it as text: write {number}" if re.search("[eE]", value) else f"write {number} without quotes"
    if wants in ("integer", "number") and isinstance(value, bool):
        return "write a number: true, false, yes, no, on and off are none"
    if wants == "integer" and isinstance(value, float) and value.is_integer():
        return f"write {int(value)}"
    if wants == "boolean":
        return "write true or false, without quotes"
    if key == "run" and isinstance(value, str):
        return f"name it {suggest_id(value)}"
    if near := difflib.get_close_matches(str(value), [str(choice) for choice in _choices(part)], n=1):
        return f"did you mean {near[0]}?"
    return f"correct it, or take the line out to have {part['default']}" if part.get("default") is not None else f"see {KEY_PAGE}"


def _number(text: str, whole: bool) -> str:
    """Return how YAML wants a number written that stands here as text; empty if it is none."""
    try:
        value = float(text.replace("_", ""))
    except ValueError:
        return ""
    if value != value or value in (float("inf"), float("-inf")):
        return ""
    if whole:
        return str(int(value)) if value.is_integer() else ""
    plain = repr(value)
    return plain if "." in plain or "e" not in plain else plain.replace("e", ".0e")
