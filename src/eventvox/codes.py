"""Reason codes: why a video, a file or a setting is refused, and what to do about it."""

from __future__ import annotations

from shardwork.errors import DataError

CODES: dict[str, str] = {
    "empty_file": "The video has 0 bytes.",
    "not_a_video": "The file is no video container: a picture, a web page, a folder, or a video cut before its index.",
    "no_video_stream": "The container holds no video stream (cover pictures do not count).",
    "codec_unsupported": "No decoder here reads the video's codec or pixel format.",
    "no_frames": "The container opens but not one frame can be decoded.",
    "single_frame": "Only one frame can be decoded, so there is no transition between two frames.",
    "bad_fps": "Neither OpenCV nor the container states a frame rate that is a finite number above 0.",
    "decode_gap": "Frames are missing or damaged inside the video.",
    "truncated": "The video ends earlier than its container says.",
    "size_change": "The frame size changes within the video.",
    "too_large": "The event file would be larger than the limit or than the free disk.",
    "invalid_hdf5": "The event file breaks the format.",
    "bad_annotations": "A file of captions or actions does not have the form of ActivityNet's, or holds a value of the wrong kind.",
    "bad_setting": "A setting is unknown or out of range.",
    "bad_release": "A list or manifest of a release is not what its step writes.",
}
"""Code -> what it means, in one sentence. Source: events spec D12."""

HINTS: dict[str, str] = {
    "missing_file": "download it, or take its row out of the table",
    "empty_file": "download it again, or take it out of the table",
    "not_a_video": "download it again, or take it out of the table",
    "no_video_stream": "take it out of the table",
    "codec_unsupported": "re-encode it (H.264, yuv420p) or take it out of the table",
    "no_frames": "re-encode it or take it out of the table",
    "single_frame": "take it out of the table, or set allow_empty to keep a file without voxels",
    "bad_fps": "re-encode it with a frame rate or take it out of the table",
    "decode_gap": "download it again; or set gap_policy to prefix (keep the frames before the gap) or skip (bridge it)",
    "truncated": "download it again; or set gap_policy to prefix or skip to keep what there is",
    "size_change": "cut it where the size changes, or take it out of the table",
    "too_large": "free disk, raise max_file_gib, or cut the video",
    "invalid_hdf5": "make the file again from its video",
    "bad_annotations": "mend the entry, or take it out of the file",
    "bad_setting": "see config/README.md for what is allowed",
    "bad_release": "run the workflow again; python -m eventvox release verify names every fault",
}
"""Code -> what to do."""


class VideoRefused(DataError):
    """A verdict on one video, with the counts that the quarantine table shows.

    frames_reported : int or None, what the header says.   frames_decoded : int, how many frames came out before the verdict.
    """

    def __init__(
        self, code: str, where: object, found: str, expected: str, hint: str = "", frames_reported: int | None = None, frames_decoded: int = 0
    ) -> None:
        super().__init__(code, where, found, expected, hint or HINTS[code])
        self.frames_reported, self.frames_decoded = frames_reported, frames_decoded

    def facts(self) -> dict[str, object]:
        """Return the counts for the item's row."""
        return {"frames_reported": self.frames_reported, "frames_decoded": self.frames_decoded}
