"""The configuration: what is accepted, what is refused, and that each refusal says where and what to write."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from eventvox.settings import CODEC_LEVELS, CODECS_TEXT, parse_codec
from reelmill.codes import CODES, ConfigError
from reelmill.config import CODEC_PATTERN, CODECS, Config, EventsConfig, load, resolve
from shardwork.errors import DataError

ROOT = Path(__file__).resolve().parents[2]
RUN = "run: demo\n"
EVENTS = RUN + "events:\n  table: videos.csv\n"


def write(tmp_path: Path, text: str | bytes, name: str = "run.yaml") -> Path:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def refuse(tmp_path: Path, text: str | bytes, **overrides: object) -> list[str]:
    """Return the problems of a refused configuration, the folder's name taken out."""
    with pytest.raises(ConfigError) as caught:
        load([write(tmp_path, text)], overrides)
    return [str(problem).replace(f"{tmp_path}/", "") for problem in caught.value.problems]


def test_defaults_fill_what_is_left_out(tmp_path: Path) -> None:
    config = load([write(tmp_path, EVENTS)])
    assert (config.run, config.results, config.python, config.max_quarantined, config.verify, config.prune) == ("demo", "results", "python", 0, "fast", False)
    assert config.redo.events == 0
    assert config.folder == Path("results/demo")
    assert config.events is not None and (config.events.work_shards, config.events.workers) == (20, 1)


def test_named_python_together_with_conda_is_refused() -> None:
    assert Config(run="demo").interpreter(conda=True) == "python" and Config(run="demo", python="/x/python").interpreter(conda=False) == "/x/python"
    with pytest.raises(DataError, match=r"config: python: '/x/python' together with --sdm conda.*\[E_CONFIG_VALUE\]"):
        Config(run="demo", python="/x/python").interpreter(conda=True)


def test_section_left_out_is_off(tmp_path: Path) -> None:
    assert load([write(tmp_path, RUN)]).events is None


def test_configuration_cannot_change(tmp_path: Path) -> None:
    with pytest.raises(ValidationError):
        load([write(tmp_path, RUN)]).run = "other"  # type: ignore[misc]


def test_settings_are_the_keys_that_decide_bytes() -> None:
    settings = EventsConfig(table="videos.csv", work_shards=3, workers=2).settings()
    assert not {"table", "work_shards", "workers", "release"} & settings.keys()
    assert settings["num_bins"] == 5 and settings["codec"] == "auto" and len(settings) == 14


def test_settings_agree_with_eventvox() -> None:
    voxel_settings = pytest.importorskip("eventvox.settings").VoxelSettings
    theirs = {field.name: field.default for field in dataclasses.fields(voxel_settings)}
    ours = EventsConfig(table="videos.csv").settings()
    assert ours == theirs
    assert {name: type(value) for name, value in ours.items()} == {name: type(value) for name, value in theirs.items()}


def test_release_settings_agree_with_eventvox() -> None:
    manifest_settings = pytest.importorskip("eventvox.manifest_settings").ManifestSettings
    ours = EventsConfig(table="videos.csv").release.settings()
    assert ours == {field.name: field.default for field in dataclasses.fields(manifest_settings)}


def test_release_changes_no_event_file(tmp_path: Path) -> None:
    events = load([write(tmp_path, EVENTS + "  release:\n    dark_below: 0.3\n    scales: {medium: 0.5}\n")]).events
    assert events is not None and events.settings() == EventsConfig(table="videos.csv").settings()
    assert (events.release.settings()["dark_below"], events.release.settings()["medium_share"]) == (0.3, 0.5)


LIMITS = {
    "frames_per_bin": (-1, 0, 1, 1000, 1001),
    "gamma": (-1.0, 0.0, 0.0099, 0.01, 100.0, 100.1),
    "eps": (-1.0, 0.0, 0.9e-9, 1e-9, 1.0, 1.1),
    "threshold_pos": (-1.0, 0.0, 0.0009, 0.001, 10.0, 10.1),
    "threshold_neg": (-1.0, 0.0, 0.0009, 0.001, 10.0, 10.1),
    "max_file_gib": (-0.1, 0.0, 1e9),
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in LIMITS.items() for value in values])
def test_limits_agree_with_eventvox(name: str, value: float) -> None:
    voxel_settings = pytest.importorskip("eventvox.settings").VoxelSettings
    keys: dict[str, Any] = {name: value}
    assert _takes(lambda: EventsConfig(table="x", **keys)) == _takes(lambda: voxel_settings(**keys))


def _takes(make: Callable[[], object]) -> bool:
    try:
        make()
    except (ValidationError, DataError):
        return False
    return True


def test_whole_number_is_taken_where_a_number_belongs(tmp_path: Path) -> None:
    events = load([write(tmp_path, EVENTS + "  gamma: 1\n")]).events
    assert events is not None and events.gamma == 1.0 and isinstance(events.gamma, float)


def test_anchors_and_merge_keys_are_fine(tmp_path: Path) -> None:
    text = RUN + "events:\n  table: videos.csv\n  threshold_pos: &c 0.3\n  threshold_neg: *c\n  <<: {gamma: 3.0, eps: 0.5}\n  gamma: 4.0\n"
    events = load([write(tmp_path, text)]).events
    assert events is not None and (events.threshold_neg, events.gamma, events.eps) == (0.3, 4.0, 0.5)


def test_byte_order_mark_is_fine(tmp_path: Path) -> None:
    assert load([write(tmp_path, "\ufeff" + RUN)]).run == "demo"


def test_later_file_wins_key_by_key(tmp_path: Path) -> None:
    first = write(tmp_path, EVENTS + "  gamma: 1.5\n  eps: 0.5\n", "first.yaml")
    second = write(tmp_path, "events:\n  gamma: 2.5\n", "second.yaml")
    events = load([first, second]).events
    assert events is not None and (events.table, events.gamma, events.eps) == ("videos.csv", 2.5, 0.5)


def test_json_file_is_read_as_json(tmp_path: Path) -> None:
    events = load([write(tmp_path, '{"run": "demo",\t"events": {"table": "videos.csv", "eps": 1e-3}}', "run.json")]).events
    assert events is not None and events.eps == 0.001


def test_json_file_with_a_key_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"run.json: key 'run' stands twice.*\[E_CONFIG_YAML\]"):
        load([write(tmp_path, '{"run": "a", "run": "b"}', "run.json")])


KEYS = [
    (
        EVENTS + "  release:\n    scales:\n      medum: 0.2\n",
        "run.yaml:6: events.release.scales.medum: no such key, expected a key of events.release.scales: did you",
    ),
    (EVENTS + "  num_binz: 7\n", "run.yaml:4: events.num_binz: no such key, expected a key of events: did you mean events.num_bins?"),
    (RUN + "max_quarantine: 1\n", "run.yaml:2: max_quarantine: no such key, expected a key of the configuration: did you mean max_quarantined?"),
    (RUN + "redo:\n  event: 1\n", "run.yaml:3: redo.event: no such key, expected a key of redo: did you mean redo.events?"),
    (RUN + "num_bins: 5\n", "run.yaml:2: num_bins: no such key, expected a key of the configuration: did you mean events.num_bins?"),
    (RUN + "xyz:\n  abc: 3\n", "run.yaml:2: xyz: no such key, expected a key of the configuration: the keys here are run, results, "),
    ("no: 3\n", "run.yaml:1: the key no, which YAML reads as bool, expected a name as key"),
    ("run: demo\n? [a]\n: 3\n", "run.yaml:2: the key in brackets, which YAML reads as seq, expected a name as key"),
]


@pytest.mark.parametrize(("text", "said"), KEYS)
def test_unknown_key_is_named_with_the_nearest(tmp_path: Path, text: str, said: str) -> None:
    (problem,) = refuse(tmp_path, text)
    assert problem.startswith(said) and problem.endswith("[E_CONFIG_KEY]")


TYPES = [
    ("run: no\n", "run.yaml:1: run: false (written `no`), expected text of 1 to 100", "YAML reads no as false: write run: 'no' with the quotes"),
    ("run: 2024_01\n", "run.yaml:1: run: 202401 (written `2024_01`)", "write run: '2024_01' with the quotes"),
    ("run: 1.50\n", "run.yaml:1: run: 1.5 (written `1.50`)", "write run: '1.50' with the quotes"),
    ("run: [a]\n", "run.yaml:1: run: a list", ""),
    (RUN + "results: on\n", "run.yaml:2: results: true (written `on`)", "write results: 'on' with the quotes"),
    (RUN + "prune: 'no'\n", "run.yaml:2: prune: the text 'no', expected true or false", "without quotes"),
    (RUN + "prune: 1\n", "run.yaml:2: prune: 1, expected true or false", "write true or false"),
    (RUN + "max_quarantined: true\n", "run.yaml:2: max_quarantined: true, expected a whole number, 0 or more", "true, false, yes, no, on and off are none"),
    (EVENTS + "  work_shards: '100'\n", "run.yaml:4: events.work_shards: the text '100', expected a whole number from 1 to 9999", "write 100 without quotes"),
    (EVENTS + "  work_shards: 1e3\n", "run.yaml:4: events.work_shards: the text '1e3'", "YAML reads it as text: write 1000"),
    (EVENTS + "  work_shards: 3.0\n", "run.yaml:4: events.work_shards: 3.0", "write 3"),
    (EVENTS + "  gamma: 1e3\n", "run.yaml:4: events.gamma: the text '1e3', expected a number from 0.01 to 100", "YAML reads it as text: write 1000.0"),
    (EVENTS + "  eps: 1e-3\n", "run.yaml:4: events.eps: the text '1e-3'", "write 0.001"),
    (EVENTS + "  eps: 1e-9\n", "run.yaml:4: events.eps: the text '1e-9'", "write 1.0e-09"),
    (EVENTS + "  gamma: yes\n", "run.yaml:4: events.gamma: true (written `yes`), expected a number from 0.01 to 100", "write a number"),
    (EVENTS + "  num_bins: '5'\n", "run.yaml:4: events.num_bins: the text '5', expected 5", "write 5 without quotes"),
    (EVENTS + "  rotation: no\n", "run.yaml:4: events.rotation: false (written `no`), expected display | stored", "write one of the words"),
    (EVENTS + "  gamma:\n", "run.yaml:4: events.gamma: nothing after the colon", "give it a value, or take the line out"),
    (RUN + "events:\n", "run.yaml:2: events: nothing after the colon, expected keys indented below it", "take the line out"),
    (RUN + "events: yes\n", "run.yaml:2: events: true (written `yes`), expected keys indented below it", ""),
    (RUN + "redo: {events: a}\n", "run.yaml:2: redo.events: the text 'a', expected a whole number, 0 or more", ""),
    ("- run: demo\n", "run.yaml: a list at top level, expected keys with values", ""),
    ("demo\n", "run.yaml: a single value at top level, expected keys with values", ""),
]


@pytest.mark.parametrize(("text", "said", "hint"), TYPES)
def test_wrong_kind_is_named_with_what_to_write(tmp_path: Path, text: str, said: str, hint: str) -> None:
    (problem,) = refuse(tmp_path, text)
    assert problem.startswith(said) and hint in problem and problem.endswith("[E_CONFIG_TYPE]")


VALUES = [
    ("run: a b\n", "run.yaml:1: run: the text 'a b'", "name it a_b"),
    ("run: " + "a" * 101 + "\n", "run.yaml:1: run: the text 'aaa", "name it aaa"),
    ('run: "demo\\n"\n', "run.yaml:1: run: the text 'demo\\n'", "name it demo"),
    ("run: ../up\n", "run.yaml:1: run: the text '../up'", "name it up"),
    (RUN + "results: ''\n", "run.yaml:2: results: the text ''", "to have results"),
    (RUN + 'results: "a\\0b"\n', "run.yaml:2: results: the text 'a\\x00b'", "to have results"),
    (RUN + "verify: ful\n", "run.yaml:2: verify: the text 'ful', expected fast | full", "did you mean full?"),
    (RUN + "max_quarantined: -1\n", "run.yaml:2: max_quarantined: -1, expected a whole number, 0 or more", "to have 0"),
    (EVENTS + "  num_bins: 6\n", "run.yaml:4: events.num_bins: 6, expected 5", "take the line out to have 5"),
    (EVENTS + "  work_shards: 0\n", "run.yaml:4: events.work_shards: 0, expected a whole number from 1 to 9999", "to have 20"),
    (EVENTS + "  work_shards: 10000\n", "run.yaml:4: events.work_shards: 10000, expected a whole number from 1 to 9999", "to have 20"),
    (EVENTS + "  threshold_neg: 0\n", "run.yaml:4: events.threshold_neg: 0, expected a number from 0.001 to 10", "to have 0.2"),
    (EVENTS + "  gamma: .nan\n", "run.yaml:4: events.gamma: nan (written `.nan`), expected a number from 0.01 to 100", "to have 2.2"),
    (EVENTS + "  max_file_gib: .inf\n", "run.yaml:4: events.max_file_gib: inf (written `.inf`), expected a number, 0 or more", "to have 0.0"),
    (
        EVENTS + "  codec: zstd:3\n",
        f"run.yaml:4: events.codec: the text 'zstd:3', expected text, {CODECS}",
        "to have auto",
    ),
    (EVENTS + "  intensity: Power\n", "run.yaml:4: events.intensity: the text 'Power', expected power | linlog | linear", "did you mean power?"),
    (
        EVENTS + "  release:\n    keywords: run, jump\n",
        "run.yaml:5: events.release.keywords: the text 'run, jump', expected words of the letters",
        "to have run",
    ),
    (RUN + "redo:\n  events: -1\n", "run.yaml:3: redo.events: -1", "to have 0"),
]


@pytest.mark.parametrize(("text", "said", "hint"), VALUES)
def test_unusable_value_is_named_with_what_to_write(tmp_path: Path, text: str, said: str, hint: str) -> None:
    (problem,) = refuse(tmp_path, text)
    assert problem.startswith(said) and hint in problem and problem.endswith("[E_CONFIG_VALUE]")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (RUN + "events: {}\n", "run.yaml:2: events.table: the key is not there, expected text on one line without braces: write `table: ...` below events"),
        ("prune: true\n", "run.yaml: run: the key is not there, expected text of 1 to 100 characters A-Z a-z 0-9 _ -: write `run: ...`"),
    ],
)
def test_missing_key_is_named(tmp_path: Path, text: str, said: str) -> None:
    (problem,) = refuse(tmp_path, text)
    assert problem.startswith(said) and problem.endswith("[E_CONFIG_MISSING]")


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere.yaml: no such file.*\[E_CONFIG_MISSING\]"):
        load([tmp_path / "nowhere.yaml"])


def test_no_configuration_at_all_says_that_run_is_missing() -> None:
    with pytest.raises(ConfigError, match=r"config: run: the key is not there.*\[E_CONFIG_MISSING\]"):
        resolve({}, [])


def test_several_problems_stand_in_one_line_and_one_by_one(tmp_path: Path) -> None:
    path = write(tmp_path, EVENTS + "  num_binz: 7\n  gamma: 0\nprune: maybe\n")
    with pytest.raises(ConfigError) as caught:
        load([path])
    assert [problem.code for problem in caught.value.problems] == ["E_CONFIG_KEY", "E_CONFIG_TYPE", "E_CONFIG_VALUE"]
    summary = str(caught.value)
    assert "\n" not in summary and f"(and 2 more problems: {path}:6: prune [E_CONFIG_TYPE], {path}:5: events.gamma [E_CONFIG_VALUE])" in summary
    assert summary.startswith(f"{path}:4: events.num_binz: no such key") and caught.value.code == "E_CONFIG_KEY"


def test_problem_names_the_file_that_set_the_value(tmp_path: Path) -> None:
    first = write(tmp_path, EVENTS + "  gamma: 0\n", "first.yaml")
    second = write(tmp_path, "prune: true\nevents:\n  eps: 0\n", "second.yaml")
    with pytest.raises(ConfigError) as caught:
        load([first, second])
    assert sorted(problem.where for problem in caught.value.problems) == [f"{first}:4: events.gamma", f"{second}:3: events.eps"]


def test_command_line_value_is_named_as_such(tmp_path: Path) -> None:
    (problem,) = refuse(tmp_path, EVENTS, events={"gamma": -1})
    assert problem.startswith("--config: events.gamma: -1, expected a number from 0.01 to 100")


def test_text_of_the_command_line_is_read_as_yaml_where_no_text_belongs(tmp_path: Path) -> None:
    # Snakemake hands over `--config prune=true 'events={workers: 4, gamma: 1.5}'` with these as text.
    config = load([write(tmp_path, EVENTS)], {"prune": "true", "run": "123", "events": {"workers": "4", "gamma": "1.5"}})
    assert config.events is not None and (config.prune, config.run, config.events.workers, config.events.gamma) == (True, "123", 4, 1.5)


def test_quoted_number_of_a_file_stays_an_error_beside_a_command_line(tmp_path: Path) -> None:
    (problem,) = refuse(tmp_path, EVENTS + "  workers: '4'\n", prune="true")
    assert problem.startswith("run.yaml:4: events.workers: the text '4'")


def test_octal_of_the_command_line_is_refused(tmp_path: Path) -> None:
    (problem,) = refuse(tmp_path, EVENTS, events={"work_shards": "010"})
    assert problem.startswith("--config: events.work_shards: the text '010'") and "write 10 without quotes" in problem


def test_number_as_run_on_the_command_line_says_how_to_quote(tmp_path: Path) -> None:
    (problem,) = refuse(tmp_path, EVENTS, run=202401)
    assert problem.startswith("--config: run: 202401") and "write --config 'run=!!str ...'" in problem


def test_resolve_reads_the_files_that_snakemake_merged(tmp_path: Path) -> None:
    path = write(tmp_path, EVENTS + "  gamma: 1\n  gamma: 2\n")
    with pytest.raises(ConfigError, match=r"run.yaml:5: events.gamma: the key stands twice.*line 4"):
        resolve(yaml.safe_load(path.read_text()), [path])


def test_resolve_takes_the_merged_values_over_the_files(tmp_path: Path) -> None:
    path = write(tmp_path, EVENTS)
    assert resolve({"run": "other"}, [path]) == Config(run="other")


def test_every_code_that_is_raised_has_its_meaning() -> None:
    sources = (ROOT / "src/reelmill").glob("*.py")
    raised = {code for path in sources for code in re.findall(r"\bE_[A-Z_]+\b", path.read_text()) if not code.endswith("_")}
    assert raised == set(CODES) and all(CODES.values())


@pytest.mark.parametrize("name", ["config.yaml", "events_v1.yaml"])
def test_shipped_configuration_is_sound(name: str) -> None:
    config = load([ROOT / "config" / name])
    assert config.events is not None and config.run == {"config.yaml": "demo", "events_v1.yaml": "events_v1"}[name]


def test_production_configuration_spells_out_every_key_that_decides_bytes() -> None:
    written = yaml.safe_load((ROOT / "config/events_v1.yaml").read_text())["events"]
    assert EventsConfig(table="x").settings() == {key: written[key] for key in EventsConfig(table="x").settings()}


def test_production_configuration_spells_out_the_release() -> None:
    written = yaml.safe_load((ROOT / "config/events_v1.yaml").read_text())["events"]["release"]
    assert EventsConfig(table="x").release.model_dump() == written


def test_the_codecs_are_those_that_the_step_knows():
    for name in [*CODEC_LEVELS, "gzip", "zstd"]:
        for text in (name, f"{name}:", *(f"{name}:{level}" for level in range(-1, 15)), f"{name}:04"):
            try:
                known = bool(parse_codec(text))
            except DataError:
                known = False
            assert bool(re.search(CODEC_PATTERN, text)) == known, text
    assert CODECS == CODECS_TEXT


@pytest.mark.parametrize("keys", ["frames_per_bin: 2", "interpolate_bins: true"])
def test_controls_want_one_frame_step_in_each_bin(tmp_path: Path, keys: str) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(f"run: r\nevents:\n  table: t.csv\n  {keys}\n  controls: true\n")
    with pytest.raises(DataError, match=r"events.controls: true with .*, expected frames_per_bin 1 and interpolate_bins false.*\[E_CONFIG_VALUE\]"):
        load([path])
    path.write_text(f"run: r\nevents:\n  table: t.csv\n  {keys}\n")
    assert load([path]).events is not None


def test_controls_change_no_event_file(tmp_path: Path) -> None:
    assert EventsConfig(table="t.csv", controls=True).settings() == EventsConfig(table="t.csv").settings()


@pytest.mark.parametrize("other", ["data/p", "data/p/", "data/p/inner", "data"])
def test_two_pools_in_one_folder_are_refused(tmp_path: Path, other: str) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(f"run: x\nbackgrounds:\n  polyhaven: {{pool: data/p}}\n  sa1b: {{pool: {other}, table: t.csv}}\n")
    with pytest.raises(DataError, match=r"backgrounds.sa1b.pool.*\[E_CONFIG_VALUE\]"):
        load([file])
