"""Finished assets as the planner finds them: a record that is of another kind is refused, not planned with."""

import json

import pytest

from sam3dvid.codes import AssetRefused
from sam3dvid.plan.catalogue import read_assets

RECORD = {"source": "gso", "mesh": {"bytes": 1, "sha256": "0" * 64}}


def write(dataset, **changes):
    for number in range(4):
        folder = dataset / "assets/eval" / f"a{number}"
        folder.mkdir(parents=True)
        (folder / "meta.json").write_text(json.dumps({**RECORD, **(changes if number == 2 else {})}))


def test_assets_are_read_in_the_order_of_their_ids(tmp_path):
    write(tmp_path)
    assert [(asset.asset_id, asset.source) for asset in read_assets(tmp_path, "eval")] == [(f"a{number}", "gso") for number in range(4)]


@pytest.mark.parametrize(
    "changes",
    [{"source": 5}, {"source": None}, {"source": ""}, {"source": ["gso"]}, {"mesh": {"sha256": 7}}, {"mesh": {}}, {"mesh": "x"}, {"mesh": None}],
    ids=str,
)
def test_a_source_or_digest_that_is_no_text_is_a_bad_asset(tmp_path, changes):
    write(tmp_path, **changes)
    with pytest.raises(AssetRefused) as error:
        read_assets(tmp_path, "eval")
    assert error.value.code == "bad_asset"
    assert "a2" in str(error.value.where)
