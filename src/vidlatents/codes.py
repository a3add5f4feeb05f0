"""Codes of latents: why a sample, a model or a file is refused, and what to do about it."""

from __future__ import annotations

CODES: dict[str, str] = {
    "E_JSON": "A line of the records is not strict JSON.",
    "E_FIELD": "A record lacks a field.",
    "E_TYPE": "A field of a record holds a value of the wrong kind.",
    "E_BUCKET_MISMATCH": "A record's bucket_key says another size than its other fields.",
    "E_DUP_OUTPUT": "Two records would write the same file.",
    "E_UTTID": "A uttid cannot be a file name.",
    "E_VIDEO_MISSING": "The RGB video is not there.",
    "E_CONTROL_MISSING": "The control video is not there.",
    "E_DECODE": "A video cannot be decoded.",
    "E_FRAMES_SHORT": "A video has fewer frames than its record asks for.",
    "E_FRAME_MISMATCH": "RGB and control have different numbers of frames.",
    "E_SIZE_MISMATCH": "RGB and control have different sizes.",
    "E_FRAMES_4N1": "The layout `whole` takes 1, 5, 9, ... frames only.",
    "E_WINDOW": "The layout `sections` needs at least one window of 33 frames.",
    "E_MULTIPLE": "A height or width is no multiple of what the model compresses by.",
    "E_PROMPT_MISSING": "A record has no prompt.",
    "E_PROMPT_TRUNCATED": "A warning: the prompt is longer than the text encoder reads; its end is not encoded.",
    "E_MODEL_MISSING": "The weights of a model are not there, not whole, or cannot be read.",
    "E_MODEL_KIND": "A folder holds another model than the one asked for.",
    "E_NONFINITE": "The model returned NaN or infinity.",
    "E_DISK": "The disk has not enough room for the run.",
    "E_OOM": "The model needs more memory for this sample than there is.",
    "E_FILE_EXTRA": "verify: a .pt file that no sample of this dataset is named by; a trainer that lists the folder fails on it.",
    "E_FILE_MISSING": "verify: a file of the manifest is not there.",
    "E_FILE_SIZE": "verify: a file is smaller than any sample, or of another size than its manifest says.",
    "E_FILE_ZIP": "verify: a file is no whole zip archive, as every sample is.",
    "E_FILE_CRC": "verify: a file's bytes are not the ones that were written.",
    "E_FILE_LOAD": "verify: a file cannot be loaded safely.",
    "E_FILE_CONTENT": "verify: a file's keys, types, shapes or values are not those of a sample of its name.",
    "E_FILE_DIGEST": "verify: a file's sha256 is not the one in the manifest.",
}
"""Code -> what it means, in one sentence. Source: latents spec, "Exit codes"; E_FILE_* are the levels of verification."""

HINT_REMAKE = "take the file away (verify --delete-bad) and run the same command again"
"""What to do about a file that is not what was written."""
