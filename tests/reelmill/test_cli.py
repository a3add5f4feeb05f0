"""The command line: exit codes and one error line a problem."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from reelmill.__main__ import main


def test_config_prints_the_whole_configuration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("run: demo\nevents:\n  table: é.csv\n")
    assert main(["config", "--configfile", str(path)]) == 0
    shown = capsys.readouterr().out
    again = tmp_path / "again.yaml"
    again.write_text(shown)
    assert yaml.safe_load(shown)["events"]["work_shards"] == 20 and "é.csv" in shown
    assert main(["config", "--configfile", str(again)]) == 0 and capsys.readouterr().out == shown


def test_branch_that_is_off_is_not_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("run: demo\n")
    assert main(["config", "--configfile", str(path)]) == 0
    assert "events: null" not in capsys.readouterr().out


def test_each_problem_is_one_error_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("run: demo\nprune: 1\nverfy: full\n")
    assert main(["config", "--configfile", str(path)]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("error: ") and first.endswith("[E_CONFIG_KEY]")
    assert second.startswith("error: ") and second.endswith("[E_CONFIG_TYPE]")


@pytest.mark.parametrize("arguments", [[], ["nothing"], ["generate"], ["generate", "--write", "--check"]])
def test_unusable_command_line_exits_2(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
