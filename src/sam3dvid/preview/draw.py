"""A clip's sheet and film, written together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sam3dvid.preview.clip import Clip, Rgb, read_clip
from sam3dvid.preview.film import draw_frame, write_film
from sam3dvid.preview.sheet import chosen_frames, draw_column, draw_sheet
from sam3dvid.preview.survey import Survey, survey_clip
from shardwork.errors import DataError
from shardwork.files import atomic_path

PNG_LEVEL = 4
"""Of a sheet of 2800 x 3430 px: level 2 takes 0.7 CPU s and 4.3 MB, 4 takes 1.0 and 3.8, 6 takes 1.5 and 3.7."""


@dataclass(frozen=True, slots=True)
class Preview:
    """What was drawn.   sheet, film : the files.   frames : on the sheet.   survey : the numbers of the clip."""

    sheet: Path
    film: Path
    frames: tuple[int, ...]
    survey: Survey


def preview_clip(folder: Path, out: Path | None = None, fps: int = 8, frames: Sequence[int] = ()) -> Preview:
    """Write SPLIT_CLIP_ID.png and .mp4, each atomically; a clip that cannot be read whole leaves neither.

    folder : DATASET/clips/SPLIT/CLIP_ID.   out : the folder to write to, by default `previews` beside the dataset.   fps : of the film.
    frames : on the sheet, by default first, quarter, half, three quarters and last.   Two frames are held at a time: each is read twice.
    Raises DataError as `read_clip` does, bad_argument for a frame that the clip does not have or an `out` inside of the dataset; OSError; Fault.
    """
    clip = read_clip(folder)
    for t in frames:
        if not 0 <= t < clip.size.frames:
            raise DataError("bad_argument", "--frames", str(t), f"0 to {clip.size.frames - 1}", "name frames that the clip has")
    out = clip.root.parent / "previews" if out is None else out
    if out.resolve().is_relative_to(clip.root.resolve()):
        raise DataError("bad_argument", "--out", str(out), "a folder outside of the dataset, which holds its own files alone", "name another folder")
    survey, chosen = survey_clip(clip), chosen_frames(clip.size.frames, frames)
    name, panels = f"{clip.split}_{clip.clip_id}", dict[int, list[Rgb]]()
    sheet, film = out / f"{name}.png", out / f"{name}.mp4"
    with atomic_path(film) as video, atomic_path(sheet) as picture:
        write_film(video, _frames(clip, survey, chosen, panels), fps)
        draw_sheet(clip, survey, [(t, panels[t]) for t in chosen]).save(picture, format="PNG", compress_level=PNG_LEVEL)
    return Preview(sheet, film, tuple(chosen), survey)


def _frames(clip: Clip, survey: Survey, chosen: Sequence[int], panels: dict[int, list[Rgb]]) -> Iterator[Rgb]:
    """Yield the film's frames, and keep the sheet's panels on the way."""
    for t in range(clip.size.frames):
        frame = clip.frame(t)
        if t in chosen:
            panels[t] = draw_column(clip, t, frame, survey)
        yield draw_frame(clip, t, frame, survey)
