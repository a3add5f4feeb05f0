"""Scales are nested and stable, and keywords are found as words."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventvox.keywords import KEYWORDS, inflections, keyword_hits
from eventvox.manifest import ManifestRow
from eventvox.manifest_settings import ManifestSettings
from eventvox.scales import count_scales, draw_scales, is_drawn
from shardwork.errors import DataError

ROW = ManifestRow(
    video_id="v",
    split="train",
    class_label="",
    class_labels=(),
    duration_seconds=1.0,
    duration_source="src_fmt_dur",
    frames_seconds=1.0,
    duration_bucket="short",
    event_friendly=True,
    event_keyword_hits=("run",),
    first_frame_mean=0.5,
    dark_first_frame=False,
    fps=25.0,
    fps_num=25,
    fps_den=1,
    frames=25,
    frames_reported=25,
    voxels=5,
    height=4,
    width=4,
    rotation_deg=0,
    clipped=0,
    bytes=1,
    sha256="0",
    file_xxh3="0",
    values_xxh3="0",
    annotated_seconds=None,
    timestamps=None,
    sentences=None,
    flags=(),
)
IDS = st.text("abcXYZ019_-", min_size=1, max_size=12)
SHARES = st.floats(0, 1)


def rows_of(ids, **changes):
    return [replace(ROW, video_id=key, **changes) for key in ids]


# The first eight digits that `printf abc | sha256sum` prints, over 16**8.
@pytest.mark.parametrize(("video_id", "fraction"), [("a", 0xCA978112 / 2**32), ("abc", 0xBA7816BF / 2**32), ("", 0xE3B0C442 / 2**32)])
def test_fraction_is_that_of_sha256(video_id, fraction):
    assert not is_drawn(video_id, fraction) and is_drawn(video_id, fraction + 2**-31)


def test_share_of_nothing_and_of_all():
    ids = [f"v_{n}" for n in range(200)]
    assert not any(is_drawn(key, 0.0) for key in ids) and all(is_drawn(key, 1.0) for key in ids)


def test_share_holds_in_every_stratum():
    # 2,000 ids in each: three standard deviations of a 30 % draw are 61
    for prefix in ("v_a", "v_b", "train_", "Z"):
        assert abs(sum(is_drawn(f"{prefix}{n}", 0.3) for n in range(2000)) - 600) < 62


@given(st.sets(IDS), SHARES, SHARES)
def test_smaller_share_is_a_part_of_the_larger(ids, first, second):
    small, large = sorted((first, second))
    assert {key for key in ids if is_drawn(key, small)} <= {key for key in ids if is_drawn(key, large)}


@given(st.sets(IDS), st.sets(IDS))
def test_added_ids_move_no_other(before, added):
    settings = ManifestSettings()
    old, new = (draw_scales(rows_of(sorted(ids)), settings) for ids in (before, before | added))
    for name in ("medium", "small"):
        assert {row.video_id for row in old[name]} == {row.video_id for row in new[name]} & before


def test_scales_are_drawn_from_what_meets_the_conditions():
    settings = ManifestSettings(medium_share=1.0, small_share=1.0)
    rows = [*rows_of("a"), *rows_of("b", dark_first_frame=True), *rows_of("c", event_friendly=False), *rows_of("d", flags=("clipped",), clipped=3)]
    assert {name: [row.video_id for row in it] for name, it in draw_scales(rows, settings).items()} == {
        "large": ["a", "b", "c", "d"],
        "medium": ["a", "d"],
        "small": ["a", "d"],
    }


@pytest.mark.parametrize(("require", "expected"), [("", "abcd"), ("not_clipped", "abc"), ("clipped", "d"), ("dark_first_frame event_friendly", "b")])
def test_conditions_are_configuration(require, expected):
    settings = ManifestSettings(medium_share=1.0, require=require)
    rows = [*rows_of("a"), *rows_of("b", dark_first_frame=True), *rows_of("c", event_friendly=False), *rows_of("d", flags=("clipped",), clipped=3)]
    assert "".join(row.video_id for row in draw_scales(rows, settings)["medium"]) == expected


def test_strata_add_up_to_the_scales():
    rows = [*rows_of([f"a{n}" for n in range(40)]), *rows_of([f"b{n}" for n in range(30)], split="validation", class_label="NA", dark_first_frame=True)]
    settings = ManifestSettings()
    counts = count_scales(draw_scales(rows, settings), settings)
    assert [(part["split"], part["class_label"], part["large"], part["eligible"]) for part in counts["strata"]] == [
        ("train", "", 40, 40),
        ("validation", "NA", 30, 0),
    ]
    for name in ("large", "eligible", "medium", "small"):
        assert sum(part[name] for part in counts["strata"]) == counts["scales"][name]["videos"]
    assert counts["scales"]["large"]["class_label"] == {"": 40, "NA": 30}


BAD = [
    {"small_share": 0.4},
    {"medium_share": 1.1},
    {"medium_share": float("nan")},
    {"short_below_seconds": 200.0},
    {"dark_below": -0.1},
    {"keywords": "run Jump"},
    {"require": "event_freindly"},
]


@pytest.mark.parametrize("values", BAD)
def test_setting_that_cannot_be_used_is_refused(values):
    with pytest.raises(DataError, match=r"\[bad_setting\]"):
        ManifestSettings(**values)


@pytest.mark.parametrize(("seconds", "bucket"), [(0.0, "short"), (59.999, "short"), (60.0, "medium"), (149.999, "medium"), (150.0, "long")])
def test_bucket_borders(seconds, bucket):
    assert ManifestSettings().bucket(seconds) == bucket


# A dictionary's word: third person, past, past participle, -ing; all the default keywords.
FORMS = """
run runs ran running | jump jumps jumped jumping | throw throws threw thrown throwing | catch catches caught catching | kick kicks kicked kicking
hit hits hitting | swing swings swung swinging | spin spins spun spinning | flip flips flipped flipping | dance dances danced dancing
skate skates skated skating | ski skis skied skiing | surf surfs surfed surfing | swim swims swam swum swimming | dive dives dived dove diving
row rows rowed rowing | ride rides rode ridden riding | climb climbs climbed climbing | box boxes boxed boxing | wrestle wrestles wrestled wrestling
fence fences fenced fencing | lift lifts lifted lifting | bounce bounces bounced bouncing | serve serves served serving | shoot shoots shot shooting
"""


def test_every_form_of_every_default_keyword():
    expected = {words[0]: set(words) for words in (group.split() for line in FORMS.strip().splitlines() for group in line.split("|"))}
    assert {word: set(inflections(word)) for word in KEYWORDS.split()} == expected


@pytest.mark.parametrize(
    ("word", "forms"),
    [("carry", "carry carries carried carrying"), ("play", "play plays played playing"), ("tie", "tie ties tied tying"), ("hop", "hop hops hopped hopping")],
)
def test_forms_of_other_words_by_rule(word, forms):
    assert inflections(word) == set(forms.split())


@pytest.mark.parametrize(
    ("sentence", "hits"),
    [
        ("He RUNS, then jumped over it.", "jump run"),
        ("A climbfoo in brown rowan; boxer, skier, runner and trunks.", ""),
        ("Chairs in a row.", "row"),
        ("They tap-dance. She caught, threw and shot.", "catch dance shoot throw"),
        ("run_2 overrun", ""),
        ("The dancer's d\u0061\u0301nce", ""),
        ("", ""),
    ],
)
def test_keywords_are_whole_words_and_their_inflections(sentence, hits):
    assert " ".join(keyword_hits([sentence], KEYWORDS.split())) == hits
