"""Which assets are used: by licence and score, the others with the reason."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sam3dvid.assets.filters import AssetFilter, scores_of, select
from sam3dvid.codes import AssetRefused
from shardwork.errors import DataError


def row(name, license="CC-BY-4.0", scores=""):
    return {"asset_id": name, "license": license, "scores": scores}


ROWS = [row("a", "CC-BY-4.0", '{"aesthetic": 5.5}'), row("b", "CC0-1.0", '{"aesthetic": 5.49}'), row("c", "", '{"other": 9}'), row("d", "MIT")]


def chosen(**settings):
    kept, refused = select(ROWS, AssetFilter(**settings))
    return "".join(each["asset_id"] for each in kept), [(each["asset_id"], code) for each, code in refused]


def test_without_limits_all_are_used():
    assert chosen() == ("abcd", [])


def test_only_listed_licences_are_used_and_a_blank_one_is_not_known():
    assert chosen(licenses="CC-BY-4.0  MIT") == ("ad", [("b", "license_refused"), ("c", "license_refused")])


def test_a_score_at_the_limit_is_used_and_none_counts_as_below():
    assert chosen(min_aesthetic=5.5) == ("a", [("b", "score_too_low"), ("c", "score_too_low"), ("d", "score_too_low")])


def test_the_licence_is_looked_at_first():
    assert chosen(licenses="MIT", min_aesthetic=5)[1][:2] == [("a", "license_refused"), ("b", "license_refused")]


def test_a_table_without_scores_needs_none():
    assert select([{"asset_id": "a", "license": "MIT"}], AssetFilter())[0]


@pytest.mark.parametrize(
    "settings", [{"licenses": "CC-BY-4.0,MIT"}, {"licenses": 3}, {"min_aesthetic": -1.0}, {"min_aesthetic": float("nan")}, {"min_aesthetic": "5"}]
)
def test_a_setting_that_means_nothing_is_refused(settings):
    with pytest.raises(AssetRefused, match="bad_asset_setting"):
        AssetFilter(**settings)


@pytest.mark.parametrize("text", ["[1]", '{"a": "5"}', "5,5", '{"a": NaN}', '{"a": true}'])
def test_scores_that_are_no_numbers_are_named(text):
    with pytest.raises(DataError, match=r"'x'.*bad_table"):
        scores_of(row("x", scores=text))


def test_the_workflow_loads_nothing_heavy_with_it():
    program = "import sys; before = set(sys.modules); import sam3dvid.assets.filters; print([n for n in sys.modules if n in ('numpy', 'numba', 'trimesh')])"
    src = Path(__file__).resolve().parents[2] / "src"
    assert subprocess.run([sys.executable, "-c", program], env={"PYTHONPATH": str(src)}, capture_output=True, text=True, check=True).stdout == "[]\n"
