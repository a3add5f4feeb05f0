"""Settings: what is refused, and what the record promises to those that generate flags from it."""

from __future__ import annotations

import dataclasses
import math
import subprocess
import sys
from pathlib import Path

import pytest

import eventvox
from eventvox.codes import CODES, HINTS
from eventvox.settings import Codec, VoxelSettings, parse_codec
from shardwork.errors import DataError

BAD = [
    ("num_bins", 4),
    ("num_bins", 6),
    ("num_bins", 5.0),
    ("num_bins", "5"),
    ("frames_per_bin", 0),
    ("frames_per_bin", True),
    ("frames_per_bin", 1001),
    ("interpolate_bins", 1),
    ("interpolate_bins", "false"),
    ("intensity", "log"),
    ("gamma", "2.2"),
    ("gamma", 0),
    ("gamma", math.nan),
    ("eps", 0.0),
    ("threshold_pos", 0.0),
    ("threshold_pos", -0.2),
    ("threshold_neg", math.inf),
    ("reference", "none"),
    ("gap_policy", "lenient"),
    ("rotation", 90),
    ("allow_empty", None),
    ("codec", "isal"),
    ("codec", "isal:4"),
    ("codec", "zlib-ng:0"),
    ("codec", "libdeflate:13"),
    ("codec", "gzip:4"),
    ("codec", "rle:"),
    ("codec", "rle:1"),
    ("codec", "zlib:-1"),
    ("codec", "zlib:04"),
    ("codec", "zlib:4:4"),
    ("codec", "zstd:3"),
    ("codec", 4),
    ("max_file_gib", -1.0),
    ("max_file_gib", math.inf),
]


@pytest.mark.parametrize(("name", "value"), BAD)
def test_a_bad_value_is_refused_by_the_name_of_its_setting(name, value):
    with pytest.raises(DataError) as error:
        VoxelSettings(**{name: value})
    assert (error.value.code, error.value.where) == ("bad_setting", name)


def test_the_defaults_are_those_of_the_format():
    settings = VoxelSettings()
    assert (settings.num_bins, settings.frames_per_bin, settings.interpolate_bins) == (5, 1, False)
    assert (settings.intensity, settings.gamma, settings.eps, settings.threshold_pos, settings.threshold_neg) == ("power", 2.2, 1e-3, 0.2, 0.2)
    assert (settings.reference, settings.gap_policy, settings.rotation) == ("carried", "strict", "display")
    assert (settings.allow_empty, settings.codec, settings.max_file_gib) == (False, "auto", 0.0)


def test_a_whole_number_for_a_float_is_the_same_setting():
    assert VoxelSettings(gamma=1) == VoxelSettings(gamma=1.0)
    assert type(VoxelSettings(gamma=1).gamma) is float


def test_every_setting_explains_itself():
    for field in dataclasses.fields(VoxelSettings):
        assert len(field.metadata["help"]) > 20, field.name
        assert field.metadata["choices"] is None or field.default in field.metadata["choices"]


def test_a_codec_is_a_name_and_a_level_or_a_name_alone():
    assert parse_codec("zlib:0") == Codec("zlib", 0)
    assert parse_codec("libdeflate:12") == Codec("libdeflate", 12)
    assert parse_codec("rle") == Codec("rle", 0)


def test_settings_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        VoxelSettings().gamma = 1.0  # type: ignore[misc]


def test_every_code_has_a_meaning_and_a_hint():
    assert {*CODES, "missing_file"} == set(HINTS)  # missing_file means the same in every stage
    events = "empty_file not_a_video no_video_stream codec_unsupported no_frames single_frame bad_fps decode_gap"
    ours = "truncated size_change too_large invalid_hdf5 bad_annotations bad_setting bad_release"
    assert set(CODES) == {*events.split(), *ours.split()}


@pytest.mark.parametrize(
    ("module", "refused"),
    [
        ("settings", {"numpy", "h5py", "av", "cv2", "xxhash"}),
        ("timing", {"numpy", "h5py", "av", "cv2", "xxhash"}),
        ("layout", {"numpy", "h5py", "av", "cv2", "xxhash"}),
        ("validate", {"av", "cv2", "xxhash", "numba"}),
        ("hdf5", {"av", "cv2", "xxhash"}),
        ("decode", {"av", "cv2", "xxhash"}),
    ],
)
def test_a_module_loads_no_package_that_it_does_not_need(module, refused):
    program = f"import sys, eventvox.{module}; print(*sorted(set(sys.modules) & {refused!r}))"
    src = str(Path(eventvox.__file__).parent.parent)
    done = subprocess.run([sys.executable, "-c", program], env={"PYTHONPATH": src}, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
