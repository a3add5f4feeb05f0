"""Which clips may be released, and what an export of those alone holds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("webdataset", reason="webdataset writes the tars: it comes with the extra `clips`")

from reelmill.config import AssetsConfig
from sam3dvid.export.rights import background_refusal, background_rights
from sam3dvid.export.settings import RELEASE_LICENSES
from tests.sam3dvid.exported_datasets import IDS, SPLIT, change_json, clip_folder, export, make_dataset


@pytest.fixture
def dataset(tmp_path) -> Path:
    """A dataset whose odd clips stand before a photo of SA-1B, and show one asset alone, which no even one shows."""
    root = make_dataset(tmp_path / "dataset")
    for clip_id in IDS[1::2]:
        path = clip_folder(root, clip_id) / "meta.json"
        background = json.loads(path.read_text())["background"]
        provenance = {**background["provenance"], "source": "sa1b", "license": "LicenseRef-SA-1B"}
        change_json(path, background={**background, "image_id": "sa_17", "provenance": provenance})
    return root


def index_of(out: Path):
    return json.loads((out / "index.json").read_text())


def test_clips_before_research_photos_are_marked_and_kept(dataset, tmp_path):
    export(dataset, tmp_path / "out")
    index = index_of(tmp_path / "out")
    assert [clip_id for clip_id, clip in index["clips"].items() if not clip["releasable"]] == list(IDS[1::2])
    assert index["clips"][IDS[1]]["refusals"] == ["background sa_17: LicenseRef-SA-1B"] and index["releasable"] is False


def test_releasable_only_leaves_them_out_with_the_reason_and_their_asset_s_voxels(dataset, tmp_path):
    export(dataset, tmp_path / "out", "--releasable-only")
    index = index_of(tmp_path / "out")
    assert list(index["clips"]) == list(IDS[::2]) and index["left_out"] == {one: ["background sa_17: LicenseRef-SA-1B"] for one in IDS[1::2]}
    assert "corner_train-2" not in index["assets"] and index["releasable"] is True


def test_clip_with_an_asset_under_a_licence_that_is_not_allowed_is_refused(dataset, tmp_path):
    change_json(dataset / "assets" / SPLIT / "corner_train-1" / "meta.json", license="CC-BY-NC-4.0")
    export(dataset, tmp_path / "out")
    assert index_of(tmp_path / "out")["clips"][IDS[0]]["refusals"] == ["asset corner_train-1: CC-BY-NC-4.0"]


def test_another_allow_list_allows_it(dataset, tmp_path):
    change_json(dataset / "assets" / SPLIT / "corner_train-1" / "meta.json", license="CC-BY-NC-4.0")
    export(dataset, tmp_path / "out", "--release-licenses=CC-BY-4.0 CC-BY-NC-4.0 CC0-1.0")
    assert index_of(tmp_path / "out")["clips"][IDS[0]]["releasable"] is True


def test_release_without_any_clip_is_refused(dataset, tmp_path, capsys):
    export(dataset, tmp_path / "out", "--releasable-only", "--release-licenses=MIT", code=2)
    assert "no clip of train may be released" in (said := capsys.readouterr().err) and "[license_refused]" in said


@pytest.mark.parametrize(
    "provenance",
    [
        {},
        {"license": "CC-BY-SA-4.0"},
        *({"license": "CC0-1.0", "source": source} for source in ("sa1b", "SA-1B", "SA_1B", "Sa1B")),
        *({"license": "CC0-1.0", "releasable": mark} for mark in (False, "false", 0, None)),
    ],
    ids=lambda provenance: str(provenance),
)
def test_background_that_may_not_be_released(provenance):
    assert background_rights({"provenance": provenance}, RELEASE_LICENSES)["releasable"] is False


def test_reason_against_a_photo_of_sa1b_says_so_whatever_licence_it_states():
    assert background_refusal({"provenance": {"source": "sa1b", "license": "CC0-1.0"}}, RELEASE_LICENSES) == "from SA-1B, though it states CC0-1.0"


def test_reason_against_a_photo_that_was_marked_is_not_its_licence():
    marked = {"provenance": {"releasable": False, "license": "CC0-1.0"}}
    assert background_refusal(marked, RELEASE_LICENSES) == "marked as not releasable, though it states CC0-1.0"


def test_photo_that_is_marked_as_releasable_may_be_released():
    assert background_rights({"provenance": {"license": "CC0-1.0", "source": "polyhaven", "releasable": True}}, RELEASE_LICENSES)["releasable"] is True


def test_the_allow_list_is_the_configuration_s():
    assert AssetsConfig.model_fields["release_licenses"].default == RELEASE_LICENSES
