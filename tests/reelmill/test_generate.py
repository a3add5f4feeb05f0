"""Generated pages: they are current, a stale one is shown, and the schema refuses what the model refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from reelmill import generate
from reelmill.__main__ import main
from reelmill.config import Config
from shardwork.errors import DataError

ROOT = Path(__file__).resolve().parents[2]


def test_pages_are_current() -> None:
    found = generate.differences()
    assert found == [], "\n".join([*found, f"mend it with: {generate.COMMAND}"])


def test_stale_page_is_shown_and_written_again(tmp_path: Path) -> None:
    assert sorted(path.name for path in generate.write(tmp_path)) == ["README.md", "config.schema.json", "troubleshooting.md"]
    assert generate.differences(tmp_path) == [] and generate.write(tmp_path) == []
    page = tmp_path / "config/README.md"
    page.write_text(page.read_text().replace("| `15` |", "| `30` |"))
    shown = [line for line in generate.differences(tmp_path) if line[0] in "+-" and "`members_per_shard`" in line]
    assert [line[0] for line in shown] == ["-", "+"] and "`30`" in shown[0] and "`15`" in shown[1]
    assert generate.write(tmp_path) == [page] and generate.differences(tmp_path) == []


def test_page_with_other_line_ends_is_stale(tmp_path: Path) -> None:
    generate.write(tmp_path)
    page = tmp_path / "docs/troubleshooting.md"
    page.write_bytes(page.read_bytes().replace(b"\n", b"\r\n"))
    assert generate.differences(tmp_path) == ["docs/troubleshooting.md: line ends differ"]


def test_check_names_the_command_that_mends(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(generate, "differences", lambda: ["-old", "+new"])
    assert main(["generate", "--check"]) == 1
    assert capsys.readouterr().out == "-old\n+new\n\nmend it with: python -m reelmill generate --write\n"


def _fields(model: Any) -> list[tuple[str, str]]:
    found = []
    for name, field in model.model_fields.items():
        found.append((name, field.description))
        for part in (field.annotation, *getattr(field.annotation, "__args__", ())):
            if hasattr(part, "model_fields"):
                found += _fields(part)
    return found


def test_every_key_stands_on_the_page_with_its_meaning() -> None:
    page = generate.config_page()
    fields = _fields(Config)
    assert len(fields) >= 40
    for name, description in fields:
        assert description and description.endswith("."), name
        assert f"| `{name}` |" in page and " ".join(description.split()).replace("|", r"\|") in page, name


def test_every_pattern_is_put_in_words() -> None:
    def patterns(part: Any) -> list[Any]:
        if isinstance(part, dict):
            return [part] * ("pattern" in part) + [entry for value in part.values() for entry in patterns(value)]
        return []

    found = patterns(generate.config_schema())
    assert len(found) >= 10 and all(part.get("patternErrorMessage") for part in found)


def _schema_problems(values: Any) -> list[str]:
    validator = pytest.importorskip("jsonschema").Draft202012Validator
    validator.check_schema(generate.config_schema())
    return [error.message for error in validator(generate.config_schema()).iter_errors(values)]


@pytest.mark.parametrize("name", ["config.yaml", "events_v1.yaml"])
def test_shipped_configuration_fits_the_schema(name: str) -> None:
    assert _schema_problems(yaml.safe_load((ROOT / "config" / name).read_text())) == []


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"run": "a", "num_binz": 7}, "'num_binz' was unexpected"),
        ({"run": "a", "events": {"table": "t", "num_binz": 7}}, "'num_binz' was unexpected"),
        ({"run": "a", "redo": {"event": 1}}, "'event' was unexpected"),
        ({"run": "a", "events": None}, "None is not of type 'object'"),
        ({"run": "a", "events": {"table": "t", "num_bins": 6}}, "5 was expected"),
        ({"run": "a b"}, "does not match"),
        ({}, "'run' is a required property"),
    ],
)
def test_schema_refuses_what_the_model_refuses(values: Any, said: str) -> None:
    (problem,) = _schema_problems(values)
    assert said in problem


def test_every_code_of_every_library_stands_on_the_page() -> None:
    page = generate.trouble_page()
    for module in generate.CODE_TABLES:
        for code, text in generate._codes(module).items():
            assert f"| `{code}` | {' '.join(text.split())} |" in page


def test_library_that_is_not_there_is_left_out() -> None:
    assert generate._codes("no_such_library.codes") == {} and generate._codes("reelmill.no_such_module") == {}


def test_hints_of_a_library_are_a_third_column() -> None:
    assert list(generate._code_rows({"b": "Second.", "a": "First."}, {"a": "mend | it"})) == [
        "| code | meaning | what to do |",
        "|---|---|---|",
        r"| `a` | First. | mend \| it |",
        "| `b` | Second. |  |",
    ]


def test_code_without_a_meaning_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reelmill.codes.CODES", {"E_NEW": ""})
    with pytest.raises(DataError, match=r"reelmill\.codes: .*a code without a meaning"):
        generate._codes("reelmill.codes")


def test_schema_file_is_json() -> None:
    assert json.loads((ROOT / "workflow/schemas/config.schema.json").read_text())["required"] == ["run"]
