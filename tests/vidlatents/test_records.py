"""Records: both forms, names, and every way in which one is refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardwork.errors import DataError
from tests.vidlatents.pairs import full, minimal, settings_of, write_records
from vidlatents.codes import CODES, HINTS, SampleRefused
from vidlatents.records import Sample, duplicates, name_of, parse_name, parse_record, read_records


def refused(record, **more):
    with pytest.raises(SampleRefused) as caught:
        parse_record(record, settings_of(**more), "records.jsonl:7")
    return caught.value


def without(record, *names):
    return {key: value for key, value in record.items() if key not in names}


def test_the_seeds_example_names_the_videos_by_its_uttid():
    sample = parse_record(minimal(), settings_of(), "r:1")
    assert (str(sample.video), str(sample.control)) == ("data/videos/sample_000001.mp4", "data/control_videos/sample_000001.mp4")


def test_the_seeds_example_makes_the_seeds_file_name():
    assert name_of(parse_record(minimal(), settings_of(), "r:1")) == "sample_000001_49_480_1920.pt"


def test_a_full_record_derives_uttid_and_bucket_as_the_public_producer():
    sample = parse_record(full(), settings_of(), "r:1")
    assert (sample.uttid, sample.num_frame, sample.height, sample.width) == ("clip_1_10-140", 121, 480, 1920)


def test_a_derived_bucket_is_named_as_the_seed_names_its_own():
    assert parse_record(full(), settings_of(), "r:1").bucket_key == "480x1920x121"


@pytest.mark.parametrize(("path", "uttid"), [("d.1/v1.5_a.mp4", "v1.5_a_10-140"), ("d/a.mov", "a_10-140"), ("a", "a_10-140"), ("a.mp4_1.mp4", "a_1_10-140")])
def test_a_derived_uttid_is_the_basename_without_mp4_and_the_cut(path, uttid):
    assert parse_record(full(path=path), settings_of(), "r:1").uttid == uttid


def test_a_full_record_names_its_own_files():
    sample = parse_record(full(), settings_of(), "r:1")
    assert (str(sample.video), str(sample.control)) == ("data/videos/deep/clip_1.mp4", "data/control_videos/clip_1_sketch.mp4")


def test_a_full_records_prompt_is_the_first_of_its_captions():
    assert parse_record(full(), settings_of(), "r:1").prompt == "first"


def test_what_a_mixed_record_states_wins_over_what_could_be_derived():
    sample = parse_record({**full(), **minimal("own", 49)}, settings_of(), "r:1")
    assert (sample.uttid, sample.num_frame, sample.cut, sample.video.name) == ("own", 49, (10, 140), "clip_1.mp4")


@pytest.mark.parametrize(("size", "found"), [((500, 520), (512, 512)), ((720, 1280), (320, 576)), ((1000, 400), (576, 256))])
def test_a_full_record_takes_the_nearest_allowed_size(size, found):
    record = full(crop=None, resolution={"height": size[0], "width": size[1]})
    sample = parse_record(record, settings_of(sizes=((512, 512), (320, 576), (576, 256))), "r:1")
    assert (sample.height, sample.width) == found


@pytest.mark.parametrize(("crop", "found"), [([0, 1000, 0, 500], (256, 512)), ([0, 500, 0, 1000], (512, 256)), ([700, 1000, 100, 1000], (512, 256))])
def test_the_size_of_a_cropped_record_is_nearest_to_its_crop_of_x0_x1_y0_y1(crop, found):
    sample = parse_record(full(crop=crop), settings_of(sizes=((256, 512), (512, 256))), "r:1")
    assert (sample.height, sample.width) == found


@pytest.mark.parametrize(("frames", "bucket"), [(121, 121), (129, 121), (140, 121), (141, 141), (192, 181), (193, 193), (9999, 501)])
def test_a_full_record_takes_the_largest_frame_bucket_that_it_fills(frames, bucket):
    assert parse_record(full(cut=[0, frames]), settings_of(), "r:1").num_frame == bucket


@pytest.mark.parametrize("key", ["prompt", "prompts", "caption", "cap"])
def test_a_prompt_is_found_under_each_of_its_names(key):
    assert parse_record({**without(minimal(), "prompt"), key: "x"}, settings_of(), "r:1").prompt == "x"


@pytest.mark.parametrize("count", range(1, 5))
def test_of_several_prompts_the_first_in_the_specified_order_is_taken(count):
    names = ["prompt", "prompts", "caption", "cap"][-count:]
    assert parse_record({**without(minimal(), "prompt"), **{name: name for name in reversed(names)}}, settings_of(), "r:1").prompt == names[0]


@pytest.mark.parametrize("prompt", ["", "   ", "\U0001f600", "a\u2028b", "null", "x\n\ty &amp; <b>", "\u0645\u0631\u062d\u0628\u0627", "w " * 5000])
def test_a_prompt_is_kept_as_it_stands(prompt):
    assert parse_record(minimal(prompt=prompt), settings_of(), "r:1").prompt == prompt


@pytest.mark.parametrize("record", [without(minimal(), "prompt"), minimal(prompt=None), minimal(prompt=[])])
def test_a_record_without_prompt_is_refused(record):
    assert refused(record).code == "E_PROMPT_MISSING"


def test_a_missing_prompt_is_empty_where_the_settings_say_so():
    assert parse_record(without(minimal(), "prompt"), settings_of(missing_prompt="empty"), "r:1").prompt == ""


def test_an_unknown_rule_for_missing_prompts_is_refused():
    with pytest.raises(DataError, match="missing_prompt"):
        settings_of(missing_prompt="skip")


@pytest.mark.parametrize("uttid", ["a_49_480_1920", "x_", "_x", "v_-abc", "-Zr7", "with space", "it's", "$(id)", "\u89c6\u9891_1", "e\u0301", "a" * 200])
def test_a_uttid_of_any_other_kind_makes_a_name_that_reads_back(uttid):
    assert parse_name(name_of(parse_record(minimal(uttid), settings_of(), "r:1"))) == (uttid, 49, 480, 1920)


def test_a_number_of_thousands_of_digits_is_refused_in_words_of_ours(tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_text('{"uttid":"a","fps":-' + "1" * 5000 + "}\n")
    (error,) = read_records(path, settings_of()).refused
    assert error.code == "E_JSON" and "5000 digits" in error.found and "sys." not in str(error)


@pytest.mark.parametrize("uttid", ["", "a/b", "../x", "a\0b", "a\nb", "a\x7f", "\x85a", ".hidden", "a" * 201, "\u00e9" * 101, "\ud800"])
def test_a_uttid_that_can_be_no_file_name_is_refused(uttid):
    assert refused(minimal(uttid)).code == "E_UTTID"


@given(st.text(min_size=1, max_size=40).filter(lambda text: not text.startswith(".") and not set("/\0") & set(text)), st.integers(1, 999), st.integers(1, 9999))
def test_any_name_is_read_from_the_right(uttid, frames, width):
    assert parse_name(f"{uttid}_{frames}_8_{width}.pt") == (uttid, frames, 8, width)


@pytest.mark.parametrize("name", ["a_49_480.pt", "a_49_480_0.pt", "a_49_480_x.pt", "_49_480_64.pt", "a_49_480_64.pth", "a_049_480_64.pt", "dataset_cache.pkl"])
def test_another_name_is_no_sample_s(name):
    assert parse_name(name) is None


@pytest.mark.parametrize("name", ["bucket_num_frame", "bucket_height", "bucket_width", "bucket_key", "uttid"])
def test_a_missing_field_is_named(name):
    error = refused(without(minimal(), name))
    assert (error.code, error.found) == ("E_FIELD", f"{name} is missing")


@pytest.mark.parametrize("name", ["path", "control_path"])
def test_one_path_without_the_other_is_refused(name):
    assert refused(without(full(uttid="u"), name)).code == "E_FIELD"


@pytest.mark.parametrize("path", ["/etc/x.mp4", "../x.mp4", "a/../../x.mp4", "", "."])
def test_a_path_out_of_its_folder_is_refused(path):
    assert refused(full(path=path, uttid="u")).code == "E_FIELD"


@pytest.mark.parametrize(
    "change",
    [
        {"bucket_num_frame": "49"},
        {"bucket_height": 480.0},
        {"bucket_width": True},
        {"bucket_key": 49},
        {"uttid": 12},
        {"prompt": 3},
        {"prompt": [1]},
        {"prompt": "\ud800"},
        {"cut": [0]},
        {"cut": "0-49"},
        {"cut": [0, 49.0]},
        {"crop": [0, 1, 2]},
    ],
)
def test_a_value_of_the_wrong_kind_is_refused(change):
    assert refused(minimal(**change)).code == "E_TYPE"


@pytest.mark.parametrize(
    "change", [{"bucket_num_frame": 0}, {"bucket_height": -8}, {"bucket_width": 1 << 40}, {"cut": [49, 0]}, {"crop": [5, 5, 0, 9]}, {"crop": [0, 9, 5, 5]}]
)
def test_a_value_that_cannot_be_meant_is_refused(change):
    assert refused(minimal(**change)).code == "E_FIELD"


@pytest.mark.parametrize("key", ["480x1920x49", "49x480x1920", "giga", "480x1920", "3view_480x1920x50", "1x2x3x4"])
def test_a_bucket_key_that_agrees_or_is_a_word_is_taken(key):
    assert parse_record(minimal(bucket_key=key), settings_of(), "r:1").bucket_key == key


@pytest.mark.parametrize("key", ["480x1920x50", "1920x480x49", "49x1920x480", "0x0x0"])
def test_a_bucket_key_that_contradicts_its_record_is_refused(key):
    assert refused(minimal(bucket_key=key)).code == "E_BUCKET_MISMATCH"


@pytest.mark.parametrize("frames", [16, 31, 50, 122])
def test_whole_refuses_frames_that_are_not_4n_plus_1(frames):
    assert refused(minimal(frames=frames), layout="whole").code == "E_FRAMES_4N1"


@pytest.mark.parametrize("frames", [1, 5, 29, 49, 121, 129])
def test_whole_takes_4n_plus_1_frames(frames):
    assert parse_record(minimal(frames=frames), settings_of(layout="whole"), "r:1").num_frame == frames


@pytest.mark.parametrize("frames", [1, 5, 16, 31, 32])
def test_sections_refuse_less_than_a_window(frames):
    assert refused(minimal(frames=frames)).code == "E_WINDOW"


@pytest.mark.parametrize("frames", [33, 49, 50, 121, 129])
def test_sections_take_any_33_frames_or_more(frames):
    assert parse_record(minimal(frames=frames), settings_of(), "r:1").num_frame == frames


@pytest.mark.parametrize(("height", "width", "spatial"), [(60, 64, 8), (64, 60, 8), (120, 160, 16), (488, 1920, 16)])
def test_a_size_that_is_no_multiple_of_the_models_factor_is_refused(height, width, spatial):
    assert refused(minimal(height=height, width=width), spatial=spatial).code == "E_MULTIPLE"


def test_a_cut_one_frame_shorter_than_the_bucket_is_refused():
    assert refused(minimal(cut=[10, 58])).code == "E_FRAMES_SHORT"


def test_a_cut_of_the_buckets_frames_is_taken():
    assert parse_record(minimal(cut=[10, 59]), settings_of(), "r:1").cut == (10, 59)


def test_a_full_record_below_the_smallest_bucket_is_refused():
    assert refused(full(cut=[0, 20])).code == "E_FRAMES_SHORT"


def test_a_full_record_without_cut_and_uttid_is_refused():
    assert refused(without(full(), "cut")).code == "E_FIELD"


def test_a_refusal_says_where_who_and_which_file():
    error = refused(full(uttid="u", cut=[0, 20]))
    assert (error.where, error.facts()) == ("records.jsonl:7", {"uttid": "u", "path": "deep/clip_1.mp4"})


def test_a_bad_line_does_not_stop_the_others(tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_text("\n".join([json.dumps(minimal("a")), "{", "[]", '{"uttid":"b","uttid":"c"}', '{"x":NaN}', "", json.dumps(minimal("d"))]))
    records = read_records(path, settings_of())
    assert [sample.uttid for _, sample in records.samples] == ["a", "d"]
    assert [(error.code, error.where) for error in records.refused] == [("E_JSON", f"r.jsonl:{line}") for line in (2, 3, 4, 5)]


def test_a_line_that_is_not_utf_8_is_refused_alone(tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_bytes(b'{"uttid":"\xff"}\n' + json.dumps(minimal("a")).encode())
    records = read_records(path, settings_of())
    assert ([error.code for error in records.refused], records.total) == (["E_JSON"], 2)


@pytest.mark.parametrize("character", ["\u2028", "\u2029", "\x85", "\x1c"])
def test_a_line_ends_at_lf_alone(tmp_path, character):
    path = write_records(tmp_path / "r.jsonl", [minimal(prompt=f"a{character}b"), minimal("other")])
    if character == "\x1c":
        assert b"\\u001c" in path.read_bytes()
    assert [sample.prompt for _, sample in read_records(path, settings_of()).samples] == [f"a{character}b", "a red car"]


def test_a_byte_order_mark_and_crlf_are_no_part_of_a_record(tmp_path):
    path = write_records(tmp_path / "r.jsonl", [minimal("a"), minimal("b")], "\r\n")
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert [sample.uttid for _, sample in read_records(path, settings_of()).samples] == ["a", "b"]


def test_a_json_list_is_read_as_its_members(tmp_path):
    path = tmp_path / "r.json"
    path.write_text(json.dumps([full(), {}]))
    records = read_records(path, settings_of())
    assert ([where for where, _ in records.samples], [error.where for error in records.refused]) == (["r.json[0]"], ["r.json[1]"])


def test_a_cut_json_list_is_one_refusal(tmp_path):
    path = tmp_path / "r.json"
    path.write_text(json.dumps([full()])[:-3])
    assert [error.code for error in read_records(path, settings_of()).refused] == ["E_JSON"]


def test_a_missing_file_of_records_is_named(tmp_path):
    with pytest.raises(DataError, match=r"missing_file") as caught:
        read_records(tmp_path / "none.jsonl", settings_of())
    assert caught.value.where == "none.jsonl"


def places(*records):
    return duplicates([(f"r:{line}", parse_record(record, settings_of(), "r")) for line, record in enumerate(records, 1)])


@pytest.mark.parametrize(("first", "second"), [("a", "a"), ("Clip", "clip"), ("\u00e9", "e\u0301"), ("stra\u00dfe", "STRASSE"), ("\u00c9", "e\u0301")])
def test_names_that_a_file_system_may_take_for_one_are_all_refused(first, second):
    found = places(minimal(first), minimal("between"), minimal(second))
    assert [(error.code, error.where) for error in found] == [("E_DUP_OUTPUT", "r:1"), ("E_DUP_OUTPUT", "r:3")]


def test_one_uttid_in_two_buckets_makes_two_names():
    assert places(minimal("a", 49), minimal("a", 121)) == []


def test_two_captions_of_one_cut_are_refused():
    assert [error.code for error in places(full(cap="one"), full(cap="two"))] == ["E_DUP_OUTPUT"] * 2


def test_every_code_has_a_meaning_and_a_hint():
    assert CODES.keys() == HINTS.keys()


def test_the_codes_are_those_of_the_specification():
    named = """E_JSON E_FIELD E_TYPE E_BUCKET_MISMATCH E_DUP_OUTPUT E_UTTID E_VIDEO_MISSING E_CONTROL_MISSING E_DECODE E_FRAMES_SHORT E_FRAME_MISMATCH
    E_SIZE_MISMATCH E_FRAMES_4N1 E_WINDOW E_MULTIPLE E_PROMPT_MISSING E_PROMPT_TRUNCATED E_MODEL_MISSING E_MODEL_KIND E_NONFINITE E_DISK E_OOM"""
    assert {code for code in CODES if not code.startswith("E_FILE_")} == set(named.split())


def test_a_sample_keeps_its_record():
    sample = parse_record(minimal(extra=[1]), settings_of(), "r:1")
    assert isinstance(sample, Sample) and sample.source == minimal(extra=[1])
