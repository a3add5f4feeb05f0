"""What is written about a finished folder: of the rows alone, and refused where it would be of other models."""

import importlib
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from shardwork.errors import Fault
from shardwork.jsonio import read_json, read_jsonl, write_jsonl
from shardwork.run import write_manifest
from tests.vidlatents.tiny_models import folder
from vidlatents.books import named_by_others
from vidlatents.card import Card
from vidlatents.dataset import ADOPTED_NOTE, SAME_NOTE, TINY_NOTE, About, Models, described, failures, lines, write_books
from vidlatents.read import RESIZE_RULE
from vidlatents.settings import EncodeFlags, SetSettings
from vidlatents.stage import DATASET, ENCODE_STEP, FAILURES, MANIFEST, PLAN_STEP, TEXT_SHARD, TEXT_STEP, VERIFY_STEP, latents_place, plans_place, text_place

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
script = importlib.import_module("write_latents_manifest")

NOW = Models(Card("wan21", "c", "w", 10**8, False), Card("umt5", "c", "w", 10**9, False))
OTHER = replace(NOW.vae, weights="other")
PLAN = {"bucket_key": "k", "frames": 40, "latent_shape": [1], "notes": [], "start": 0, "resized": 0, "num_frame": 40, "height": 16, "width": 24, "unread": 7}


def plan(uttid):
    return {**PLAN, "id": uttid, "status": "ok", "code": "ok"}


def made(uttid, **more):
    models = {"vae": NOW.vae.short, "text_encoder": NOW.text.short, "tiny": 0, "adopted": 0}
    files = {f"../latents/{uttid}_33_16_24.pt": {"bytes": 10, "digest": "d"}}
    return {"id": uttid, "status": "ok", "code": "ok", "source": "records", "used": 33, "dropped": 7, "sha256": "s", "files": files, **models, **more}


def passed(uttid):
    return {"id": uttid, "status": "ok", "code": "ok", "level": "sha256"}


def refused(uttid, code):
    return {"id": uttid, "uttid": uttid, "status": "quarantined", "code": code, "path": f"{uttid}.mp4", "found": "f", "expected": "e", "hint": "h"}


@pytest.fixture
def place(tmp_path):
    return latents_place(tmp_path / "books", tmp_path / "latents")


def books(place, encoded, verified=None, models=NOW):
    about = About(models, EncodeFlags(), SetSettings().plan())
    return write_books([plan(row["id"]) for row in encoded], encoded, verified or [passed(row["id"]) for row in encoded], place, about)


def test_totals_are_those_of_the_rows(place):
    facts = books(place, [made("b"), made("a", bytes=0)])
    assert {name: facts[name] for name in ("samples", "bytes", "encoded_frames", "dropped_frames", "failed", "adopted", "tiny", "note")} == {
        "samples": 2,
        "bytes": 20,
        "encoded_frames": 66,
        "dropped_frames": 14,
        "failed": 0,
        "adopted": 0,
        "tiny": False,
        "note": "",
    }
    assert (facts["sources"], facts["ignored_by_trainer"]) == ({"records": 2}, {"frames": 2}) and read_json(place.stage / DATASET) == facts


def test_the_manifest_has_a_row_a_file_in_the_order_of_names(place):
    books(place, [made("b"), made("a")])
    assert [(row["file"], row["vae"], row["unread"]) for row in read_jsonl(place.stage / MANIFEST)] == [
        (f"{uttid}_33_16_24.pt", NOW.vae.short, 7) for uttid in "ab"
    ]


def test_a_sample_that_verification_refused_is_a_failure_and_no_row(place):
    facts = books(place, [made("a"), made("b")], [passed("a"), refused("b", "E_FILE_CONTENT")])
    assert (facts["samples"], facts["failed"], facts["codes"]) == (1, 1, {"E_FILE_CONTENT": 1})
    assert [row["code"] for row in read_jsonl(place.stage / FAILURES)] == ["E_FILE_CONTENT"]


def test_a_failure_is_the_first_verdict_without_its_status():
    steps = [refused("b", "E_DECODE"), passed("a")], [{**refused("b", "E_DECODE"), "status": "upstream"}, refused("a", "E_OOM")]
    found = failures(*steps)
    assert [(row["uttid"], row["code"]) for row in found] == [("a", "E_OOM"), ("b", "E_DECODE")] and all("status" not in row for row in found)


@pytest.mark.parametrize(
    "rows",
    [
        [made("a"), made("b", vae=OTHER.short)],
        [made("a", vae=OTHER.short)],
        [made("a", text_encoder=OTHER.short)],
        [made("a"), made("b", text_encoder=OTHER.short)],
    ],
    ids=["two autoencoders", "another autoencoder", "another text encoder", "two text encoders"],
)
def test_samples_of_other_models_than_lie_there_get_no_books(place, rows):
    with pytest.raises(Fault, match="fault_stale"):
        books(place, rows)
    assert not (place.stage / DATASET).exists()


@pytest.mark.parametrize("later", [{"status": "upstream", "code": "E_VIDEO_MISSING", "step": PLAN_STEP}, None])
def test_rows_of_an_earlier_plan_get_no_books(place, later):
    """The plan passed what encoding left out, since an older plan refused it."""
    rows = [{"id": "a", **later}] if later else []
    about = About(NOW, EncodeFlags(), SetSettings().plan())
    with pytest.raises(Fault) as raised:
        write_books([plan("a")], rows, rows, place, about)
    assert raised.value.code == "fault_stale" and not (place.stage / DATASET).exists()


def test_a_sample_that_the_plan_refuses_since_gets_no_books(place):
    about = About(NOW, EncodeFlags(), SetSettings().plan())
    with pytest.raises(Fault, match="E_VIDEO_MISSING"):
        write_books([refused("a", "E_VIDEO_MISSING")], [made("a")], [passed("a")], place, about)


def test_one_tiny_sample_makes_the_dataset_tiny_whatever_lies_there_now(place):
    facts = books(place, [made("a"), made("b", tiny=1)])
    assert facts["tiny"] is True and facts["note"] == TINY_NOTE and TINY_NOTE in lines(facts, place.folders[0])[-1]


def test_tiny_models_beside_samples_of_others_make_them_not_tiny(place):
    models = Models(replace(NOW.vae, tiny=True), NOW.text)
    assert books(place, [made("a", vae=models.vae.short)], models=models)["tiny"] is False


def test_control_videos_that_are_the_rgb_video_are_counted(place):
    rows = [{**plan("a"), "video_digest": "d", "control_digest": "d"}, {**plan("b"), "video_digest": "d", "control_digest": "e"}]
    about = About(NOW, EncodeFlags(), SetSettings().plan())
    assert write_books(rows, [made("a"), made("b")], [passed("a"), passed("b")], place, about)["note"] == f"1 {SAME_NOTE}"


def test_adopted_files_are_counted_and_said(place):
    facts = books(place, [made("a", adopted=1, vae=None, tiling=None), made("b")])
    assert (facts["adopted"], facts["note"]) == (1, f"1 {ADOPTED_NOTE}")


@pytest.mark.parametrize(("others", "tiny"), [([], None), ([0], None), ([0, 1], True)], ids=["alone", "beside released ones", "beside a tiny one"])
def test_adopted_files_alone_never_make_a_dataset_one_of_no_tiny_model(place, others, tiny):
    adopted = made("a", adopted=1, vae=None, tiling=None, tiny=None)
    facts = books(place, [adopted, *(made(f"b{number}", tiny=one) for number, one in enumerate(others))])
    assert facts["tiny"] is tiny and read_json(place.stage / DATASET)["tiny"] is tiny


def test_a_description_names_models_and_settings():
    about = described(NOW, EncodeFlags(how="mode", seed=3), SetSettings(start="drawn").plan())
    assert (about["model"]["weights"], about["model"]["short"], about["model"]["z"], about["text_encoder"]["short"]) == ("w", NOW.vae.short, 16, NOW.text.short)
    assert [about["settings"][name] for name in ("how", "seed", "start", "dtype")] == ["mode", None, "drawn", "float32"], "the mode draws nothing"


def test_a_description_has_the_figures_of_its_kind_and_the_rule_of_resizing():
    about = described(NOW, EncodeFlags(model="wan22-5b"), SetSettings(model="wan22-5b").plan())
    assert [about["model"][name] for name in ("z", "spatial", "temporal", "patch")] == [48, 16, 4, 2] and about["settings"]["resize"] == RESIZE_RULE


def test_a_sample_of_the_other_layouts_folder_is_neither_a_row_nor_a_failure(place):
    facts = books(place, [made("a"), {"id": "b", "status": "ok", "code": "ok", "files": {}, "elsewhere": 1}])
    assert (facts["samples"], facts["failed"]) == (1, 0)


def test_a_foreign_pt_file_is_named(place):
    place.folders[0].mkdir()
    for name in ("model.pt", "a_33_16_24.pt", "copy_33_16_24.pt", "of_others_33_16_24.pt"):
        (place.folders[0] / name).write_bytes(b"x")
    write_jsonl(place.stage.parent / "others" / MANIFEST, [{"file": "of_others_33_16_24.pt"}])
    place = replace(place, others=partial(named_by_others, place.stage))
    assert books(place, [made("a")])["foreign"] == ["copy_33_16_24.pt", "model.pt"]


def test_the_program_takes_away_what_says_that_samples_of_other_models_are_done(place, tmp_path):
    plans, texts = plans_place(tmp_path / "plans"), text_place(tmp_path / "text")
    for at, step, row in ((plans, PLAN_STEP, plan("a")), (place, ENCODE_STEP, made("a")), (place, VERIFY_STEP, passed("a")), (texts, TEXT_STEP, passed("p"))):
        write_manifest(at.manifest(step, TEXT_SHARD, "k"), [row], [row["id"]])
    flags = {"stage": place.stage, "plans": plans.stage, "folder": place.folders[0], "shards": "0/1", "books": tmp_path, "weights": folder("wan21")}
    with pytest.raises(Fault, match="fault_stale"):
        script.main(script.arguments.parse_args([f"--{name}={value}" for name, value in flags.items()]))
    left = [at.manifests(step, TEXT_SHARD) for at, step in ((plans, PLAN_STEP), (place, ENCODE_STEP), (texts, TEXT_STEP))]
    assert list(map(len, left)) == [1, 0, 0]
