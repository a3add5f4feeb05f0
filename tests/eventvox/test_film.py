"""Films of event files: as many frames as the source, side by side in step, padded and never resized, and nothing half-made left."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from eventvox.film import write_film
from eventvox.pictures import open_slices
from eventvox.settings import VoxelSettings
from eventvox.voxelize import voxelize_video
from shardwork.errors import DataError
from tests.eventvox.conftest import moving_frames, write_video


def flash(count=13, at=6, height=24, width=32):
    """Return frames that turn from dark to bright at one frame."""
    frames = np.full((count, height, width), 40, np.uint8)
    frames[at:] = 220
    return frames


def film(folder, frames, other=None, settings=None, **video):
    """Return the frames of the film of a video, (N, H, W, 3), and its rate; `other`: frames of the video shown beside it."""
    import av

    source = write_video(folder / "source.mkv", frames, **video)
    voxelize_video(source, folder / "v.h5", "v", settings or VoxelSettings())
    beside = source if other is None else write_video(folder / "other.mkv", other, **video)
    with open_slices(folder / "v.h5") as events:
        count = write_film(events, folder / "v.mp4", beside)
    with av.open(str(folder / "v.mp4")) as container:
        shown = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
        rate = container.streams.video[0].average_rate
    assert count == len(shown)
    return np.stack(shown).astype(int), rate


def test_frame_i_stands_beside_slice_i_minus_1(tmp_path):
    shown, _ = film(tmp_path, flash())
    assert shown.shape == (13, 24, 64, 3)
    video, events = shown[:, 4:20, 4:28].mean(axis=(1, 2)), shown[:, 4:20, 36:60].mean(axis=(1, 2))
    assert (video[:6] < 60).all() and (video[6:] > 200).all()
    red = events[:, 0] > 200
    assert red.tolist() == [index == 6 for index in range(13)] and events[6, 2] < 30


def test_film_has_the_rate_of_the_source(tmp_path):
    assert film(tmp_path, flash(), rate=Fraction(30000, 1001))[1] == Fraction(30000, 1001)


@pytest.mark.parametrize("rate", [Fraction(2298443723, 95737421), Fraction(95737421, 2298443723), Fraction(2**31 - 1)])
def test_film_of_a_rate_beyond_32_bits_has_every_frame(tmp_path, rate):
    source = write_video(tmp_path / "source.mkv", flash())
    voxelize_video(source, tmp_path / "v.h5", "v", VoxelSettings())
    with open_slices(tmp_path / "v.h5") as events:
        assert write_film(replace(events, rate=rate), tmp_path / "v.mp4", source) == 13


def test_odd_sizes_are_padded_with_black_and_not_resized(tmp_path):
    source = write_video(tmp_path / "source.mkv", flash(9, 4, 23, 31))
    voxelize_video(source, tmp_path / "v.h5", "v", VoxelSettings())
    import av

    with open_slices(tmp_path / "v.h5") as events:
        write_film(events, tmp_path / "v.mp4")
    with av.open(str(tmp_path / "v.mp4")) as container:
        frame = [frame.to_ndarray(format="gray") for frame in container.decode(video=0)][4].astype(int)
    assert frame.shape == (24, 32)
    assert (frame[:22, :30] > 60).all() and (frame[23] < 40).all() and (frame[:, 31] < 40).all()


@pytest.mark.parametrize(
    ("other", "said"),
    [(flash(12), "12 frames, expected 13 frames"), (flash(14), "more than 13 frames, expected 13"), (flash(13, 6, 32, 24), "frames of 24x32, expected 32x24")],
)
def test_video_of_another_size_or_length_is_refused_and_nothing_is_left(tmp_path, other, said):
    with pytest.raises(DataError, match=rf"{said}.*\[bad_argument\]"):
        film(tmp_path, flash(), other)
    assert not list(tmp_path.glob("*mp4*"))


def test_film_is_never_written_over_the_video_or_the_events(tmp_path):
    source = write_video(tmp_path / "source.mkv", flash())
    voxelize_video(source, tmp_path / "v.h5", "v", VoxelSettings())
    before = source.read_bytes()
    with open_slices(tmp_path / "v.h5") as events:
        for out in (source, tmp_path / "v.h5"):
            with pytest.raises(DataError, match="the same file as"):
                write_film(events, out, source)
    assert source.read_bytes() == before


def test_more_than_one_slice_a_bin_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"frames_per_bin 1.*\[bad_argument\]"):
        film(tmp_path, moving_frames(13), settings=VoxelSettings(frames_per_bin=2))
