"""Several files of records in one folder: none takes the samples of another out of it, nor the books that say what is there."""

import os
import shutil
from functools import partial
from pathlib import Path

import pytest

from shardwork.errors import DataError, Fault
from shardwork.jsonio import read_json, read_jsonl, write_jsonl
from shardwork.locks import held_lock
from tests.vidlatents.pairs import minimal, write_pair, write_records
from tests.vidlatents.test_producer_front import flags_of, here, written  # noqa: F401
from vidlatents import producer
from vidlatents.books import OWNER, check_books, held_books, named_by_others
from vidlatents.producer import produce
from vidlatents.stage import ENCODE_STEP, MANIFEST, TEXT_SHARD, latents_place

NAME = "helios_giga_ctrl.jsonl"


def record(uttid, **more):
    return minimal(uttid, 33, 16, 24, **more)


@pytest.fixture
def place(tmp_path):
    """Books of one/r.jsonl, with a sample; two/r.jsonl lies there too."""
    place = latents_place(tmp_path / "out.books" / "r", tmp_path / "out")
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write_records(tmp_path / name / "r.jsonl", [record(name)])
    with held_books(place, tmp_path / "one" / "r.jsonl"):
        place.journal(ENCODE_STEP, TEXT_SHARD).parent.mkdir(parents=True)
        place.journal(ENCODE_STEP, TEXT_SHARD).write_bytes(b"{}\n")
    return place


def test_books_of_another_file_of_records_that_is_there_are_refused_by_both_names(place, tmp_path):
    with pytest.raises(DataError, match="bad_argument") as caught, held_books(place, tmp_path / "two" / "r.jsonl"):
        pass
    assert all(str(tmp_path / name / "r.jsonl") in caught.value.found for name in ("one", "two"))
    assert read_json(place.stage / OWNER) == {"records": "../../one/r.jsonl"}


def test_records_of_one_stem_and_two_suffixes_are_two_files(place, tmp_path):
    (tmp_path / "one" / "r.json").write_text("[]")
    with pytest.raises(DataError, match="bad_argument"):
        check_books(place, tmp_path / "one" / "r.json")


def moved(root, place):
    shutil.move(root / "one", root / "three")
    return root / "three" / "r.jsonl"


def linked(root, place):
    (root / "three").symlink_to(root / "one")
    return root / "three" / "r.jsonl"


def older(root, place):
    (place.stage / OWNER).unlink()
    return root / "two" / "r.jsonl"


def empty(root, place):
    place.journal(ENCODE_STEP, TEXT_SHARD).unlink()
    return root / "two" / "r.jsonl"


@pytest.mark.parametrize("how", [moved, linked, older, empty])
def test_books_whose_records_are_gone_the_same_or_unknown_and_books_without_a_sample_are_taken_over(place, tmp_path, how):
    records = how(tmp_path, place)
    with held_books(place, records):
        assert (Path(os.path.realpath(place.stage)) / read_json(place.stage / OWNER)["records"]).samefile(records)


def test_what_other_books_name_is_known_as_theirs(tmp_path):
    for stage, file in (("a", "x.pt"), ("b", "y.pt")):
        write_jsonl(tmp_path / stage / MANIFEST, [{"file": file}])
    assert named_by_others(tmp_path / "a") == {"y.pt": f"b/{MANIFEST}"}
    write_jsonl(tmp_path / "b" / MANIFEST, [{"file": "z_of_now.pt"}])
    assert set(named_by_others(tmp_path / "a")) == {"z_of_now.pt"}


def test_a_second_data_root_into_one_folder_ends_with_2_and_takes_nothing_out_of_it(here):  # noqa: F811
    produce(flags_of(here), "wan21")
    before = written(here)
    write_pair(here / "d2", "b", 33, 33, (16, 24))
    write_records(here / "d2" / NAME, [record("b")])
    for more in ((), ("--dry_run",)):
        with pytest.raises(DataError, match="bad_argument"):
            produce(flags_of(here / "d2", *more), "wan21")
    assert written(here) == before


def test_a_sample_of_two_files_of_records_leaves_the_folder_when_neither_names_it(here):  # noqa: F811
    write_pair(here, "b", 33, 33, (16, 24))
    for name in (NAME, "n.jsonl"):
        write_records(here / name, [record("a"), record("b")])
        produce(flags_of(here, f"--metadata_file={name}"), "wan21")
    before = written(here)
    write_records(here / "n.jsonl", [record("b")])
    produce(flags_of(here, "--metadata_file=n.jsonl"), "wan21")
    assert written(here) == before and read_json(here / "out.books" / "n" / "dataset.json")["foreign"] == []
    assert [[row["uttid"] for row in read_jsonl(here / "out.books" / stem / MANIFEST)] for stem in ("n", "helios_giga_ctrl")] == [["b"], ["a", "b"]]
    write_records(here / NAME, [record("b")])
    produce(flags_of(here), "wan21")
    assert set(written(here)) == {"b_33_16_24.pt"}


def test_a_sample_that_cannot_be_encoded_for_one_file_of_records_stays_for_the_other(here, monkeypatch):  # noqa: F811
    produce(flags_of(here), "wan21")
    before = written(here)
    write_records(here / "n.jsonl", [record("a", prompt="another")])

    def refuse(*args, **more):
        raise DataError("E_NONFINITE", "a", "NaN", "finite values", "none")

    monkeypatch.setattr("vidlatents.encode.encode_pair", refuse)
    assert produce(flags_of(here, "--metadata_file=n.jsonl"), "wan21") == 3
    assert written(here) == before


def test_a_second_process_on_the_same_books_ends_before_it_plans(here, monkeypatch):  # noqa: F811
    monkeypatch.setattr(producer, "run_shard", partial(pytest.fail, "it planned"))
    stage = here / "out.books" / "helios_giga_ctrl"
    with held_lock(stage / ".lock", stage, "folder of books"), pytest.raises(Fault, match="fault_busy"):
        produce(flags_of(here), "wan21")
