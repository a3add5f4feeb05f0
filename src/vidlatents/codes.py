"""Error codes of latents: why a record, a pair of videos, a model or a stored sample is refused, and what to do about it. Standard library alone."""

from __future__ import annotations

from shardwork.errors import DataError

CODES: dict[str, str] = {
    "E_JSON": "A line of the records is no strict JSON object: cut, with a repeated key, NaN or Infinity.",
    "E_FIELD": "A record lacks a field, or a field holds a value that cannot be meant.",
    "E_TYPE": "A field of a record holds a value of the wrong kind.",
    "E_BUCKET_MISMATCH": "bucket_key reads as three numbers that are not the record's frames, height and width.",
    "E_DUP_OUTPUT": "Two records would write files of one name, or of names that some file systems take for one.",
    "E_UTTID": "A uttid cannot be part of a file name.",
    "E_VIDEO_MISSING": "The RGB video that a record names is not there.",
    "E_CONTROL_MISSING": "The control video that a record names is not there. Nothing ever stands in for it.",
    "E_DECODE": "A video cannot be decoded whole: no video, a damaged one, or one whose frame size changes.",
    "E_FRAMES_SHORT": "There are fewer decoded frames than the bucket or the cut asks for.",
    "E_FRAME_MISMATCH": "RGB and control video differ in decoded frames or in frame rate.",
    "E_SIZE_MISMATCH": "RGB and control video differ in frame size, or the crop reaches beyond the frame.",
    "E_FRAMES_4N1": "The layout `whole` asks for 4n+1 frames.",
    "E_WINDOW": "The layout `sections` asks for at least one window of 33 frames.",
    "E_MULTIPLE": "The bucket's height or width is no multiple of the model's spatial factor.",
    "E_PROMPT_MISSING": "A record has no prompt under prompt, prompts, caption or cap.",
    "E_PROMPT_TRUNCATED": "A prompt is longer than the text encoder takes; the rest is not seen by the model (a warning).",
    "E_MODEL_MISSING": "A model's folder or file is not there.",
    "E_MODEL_KIND": "A model is not of the kind that it is loaded as.",
    "E_NONFINITE": "A latent or an embedding holds NaN or Infinity.",
    "E_DISK": "The disk has no room for what is to be written.",
    "E_OOM": "The device ran out of memory on a sample.",
    "E_FILE_EXTRA": "verify: a .pt file that no sample of this dataset is named by; a trainer that lists the folder fails on it.",
    "E_FILE_MISSING": "verify: a file of the manifest is not there.",
    "E_FILE_SIZE": "verify: a file is smaller than any sample, or of another size than its manifest says.",
    "E_FILE_ZIP": "verify: a file is no whole zip archive, as every sample is.",
    "E_FILE_CRC": "verify: a file's bytes are not the ones that were written.",
    "E_FILE_LOAD": "verify: a file cannot be loaded safely.",
    "E_FILE_CONTENT": "verify: a file's keys, types, shapes or values are not those of a sample of its name.",
    "E_FILE_DIGEST": "verify: a file's sha256 is not the one in the manifest.",
}
"""Code -> what it means, in one sentence. Source: latents spec, "Structure of the work"; E_FILE_* are the levels of verification."""

HINT_REMADE = "run scripts/get_short-latents-*.py as before, or the workflow with --config verify=full"
"""What makes a file that was taken away again. The workflow without it looks at no job whose manifest stands."""
HINT_REMAKE = f"take the file away (verify --delete-bad), then {HINT_REMADE}"
"""What to do about a file that is not what was written."""

HINTS: dict[str, str] = {
    "E_JSON": "mend the line; lines end at LF alone",
    "E_FIELD": "see docs/latents_format.md for the two forms of a record",
    "E_TYPE": "see docs/latents_format.md for the two forms of a record",
    "E_BUCKET_MISMATCH": "write bucket_key as HEIGHTxWIDTHxFRAMES of the same record, or as a word of your own",
    "E_DUP_OUTPUT": "give each record a uttid of its own, also where case or Unicode form is ignored",
    "E_UTTID": "take 1 to 200 bytes of UTF-8, without / and without control characters, that begin with no dot",
    "E_VIDEO_MISSING": "put the video back, or take out the record",
    "E_CONTROL_MISSING": "put the control video back, or take out the record",
    "E_DECODE": "download or encode the video again, or take out the record",
    "E_FRAMES_SHORT": "ask for fewer frames, or take out the record",
    "E_FRAME_MISMATCH": "make the control video from this very RGB video, frame by frame; nothing is cut or retimed to fit",
    "E_SIZE_MISMATCH": "make the control video from this very RGB video in its size; correct the crop",
    "E_FRAMES_4N1": "ask for 4n+1 frames, such as 49 or 121, or take the layout sections",
    "E_WINDOW": "ask for 33 frames or more, or take the layout whole",
    "E_MULTIPLE": "take a bucket whose height and width are multiples of it",
    "E_PROMPT_MISSING": "give a prompt, or set missing_prompt to empty",
    "E_PROMPT_TRUNCATED": "shorten the prompt if its end matters",
    "E_MODEL_MISSING": "name a local folder or a hub id of the model",
    "E_MODEL_KIND": "name the model's own kind, or another model",
    "E_NONFINITE": "encode in float32; see whether the model is whole",
    "E_DISK": "free disk space, then run the same command",
    "E_OOM": "set a memory budget, so that the frames are tiled",
    "E_FILE_EXTRA": "move it out of the folder: loaders read every .pt in it",
    "E_FILE_MISSING": HINT_REMADE,
    **dict.fromkeys(("E_FILE_SIZE", "E_FILE_ZIP", "E_FILE_CRC", "E_FILE_LOAD", "E_FILE_CONTENT", "E_FILE_DIGEST"), HINT_REMAKE),
}
"""Code -> what to do."""


class SampleRefused(DataError):
    """A verdict on one sample.

    uttid : str, "" where the record does not say.   path : str, the video as the record writes it, "" where none is meant.
    """

    def __init__(self, code: str, where: object, found: str, expected: str, hint: str = "", uttid: str = "", path: str = "") -> None:
        super().__init__(code, where, found, expected, hint or HINTS[code])
        self.uttid, self.path = uttid, path

    def facts(self) -> dict[str, object]:
        """Return uttid and path for the sample's row."""
        return {"uttid": self.uttid, "path": self.path}
