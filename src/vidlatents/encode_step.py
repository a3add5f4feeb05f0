"""The step encode_latents, as `shardwork` runs it: a planned pair and its prompt's embedding become one .pt file; the autoencoder is loaded once a worker.

No file of a sample can say what it was made for, since its seven keys are fixed: a note among the books does. A file without one is verified in full, against
its prompt, its embedding and the first frame of its video, and adopted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from shardwork.digests import both_digests, seal, unseal
from shardwork.errors import DataError, Fault
from shardwork.jsonio import Json, read_json, write_json
from shardwork.place import Place
from shardwork.step import Fields, Item, Step, upstream
from vidlatents.card import Card
from vidlatents.codes import SampleRefused
from vidlatents.members import Roots, fields_of, sample_from
from vidlatents.models import kind_named
from vidlatents.plan_step import digest_of
from vidlatents.read import RESIZE_RULE, Probe, first_frame, read_pair
from vidlatents.records import Sample
from vidlatents.settings import EncodeFlags
from vidlatents.stage import ENCODE_STEP, ENCODE_VERSION, PLAN_STEP, TEXT_STEP, embedding_of, output_of, sidecar_of
from vidlatents.text_step import loaded_or_fault, read_embedding, stale_text
from vidlatents.tiling import Tiling
from vidlatents.verify import whole_zip

if TYPE_CHECKING:
    import torch

    from vidlatents.models import Vae

Load = Callable[["VaeModel", int], "Vae"]
KEPT = ("source", "num_frame", "height", "width", "sections", "used", "dropped", "unread", "prompt_digest", "uttid")
"""Fields of the plan that stand in a finished sample's row too."""
READ = ("start", "num_frame", "height", "width", "crop", "prompt", "prompt_digest", "video_digest", "control_digest", "uttid")
"""Fields of the plan that decide a file's bytes."""


@dataclass(frozen=True, slots=True)
class VaeModel:
    """An autoencoder to load.   where : folder or hub id.   kind, dtype, device : as of `models.load_vae`, auto, cpu or gpu.   card : what its files are."""

    where: str
    kind: str
    dtype: str
    device: str
    card: Card


def load(model: VaeModel, threads: int) -> Vae:
    """Return the autoencoder, on `threads` threads of the processor. Raises DataError (E_MODEL_KIND, E_MODEL_MISSING)."""
    import torch

    from vidlatents.device import pick, quiet
    from vidlatents.models import load_vae

    torch.set_num_threads(threads)
    quiet("diffusers")
    return load_vae(model.where, model.kind, getattr(torch, model.dtype), pick(model.device))


_loaded = cache(lambda model, threads, how: how(model, threads))


@dataclass(frozen=True, slots=True)
class Encoder:
    """All that encodes a sample; goes to workers.

    text : card of the text encoder.   roots : where the videos of each source are.   notes : the folder of notes, by default that of the stage.
    how : loads the autoencoder.
    """

    model: VaeModel
    text: Card
    flags: EncodeFlags
    roots: Roots
    place: Place
    texts: Place
    threads: int = 1
    how: Load = load
    notes: Path | None = None

    def step(self) -> Step:
        """Return the step."""
        settings = {**self.flags.settings(), "resize": RESIZE_RULE, "text_encoder": self.text.as_json(), "vae": self.model.card.as_json()}
        return Step(ENCODE_STEP, ENCODE_VERSION, settings, self.make, self.adopt, whole=whole_zip, note=self._note, holds=self.holds)

    def make(self, item: Item) -> Fields:
        """Encode a sample, publish its file, and note what for. Raises Fault (fault_stale) where a video or embedding is not the planned one."""
        from vidlatents.encode import EncodeSettings, encode_pair, seeds
        from vidlatents.store import Content, picture, save_sample

        (out,), row = item.outputs, item.inputs["row"]
        sample = self._sample(item)
        for name, path in (("video", sample.video), ("control", sample.control)):
            if (digest := digest_of(path)) != row[f"{name}_digest"]:
                raise Fault("fault_stale", path.name, f"digest {digest}", f"{row[f'{name}_digest']} as planned", "run the same command again")
        embed, mask = self._embedding(item)
        pair = read_pair(sample, _probes(row))
        vae = loaded_or_fault(lambda: _loaded(self.model, self.threads, self.how))
        settings = EncodeSettings(self.flags.layout, self.flags.how, *self._tilings(item))  # type: ignore[arg-type]
        try:
            found = encode_pair(vae, pair.rgb, pair.control, settings, seeds(self.flags.seed, sample.uttid), where=sample.uttid)
        except DataError as error:
            if isinstance(error, Fault):
                raise
            raise SampleRefused(error.code, error.where, error.found, error.expected, error.hint, sample.uttid, self._name(sample, row)) from error
        content = Content(found.video, found.control, embed, mask, picture(pair.rgb[0]), sample.prompt)
        tiny = int(self.model.card.tiny or self.text.tiny)
        made: Fields = {"adopted": 0, "tiling": _json(found.tiling), "tiny": tiny, "vae": self.model.card.short}
        fields: Fields = {}
        # noted before it has its name: one that a kill leaves with its name has its note, so that nothing of it must be guessed
        save_sample(out, content, lambda whole: fields.update(self._noted(item, whole, made)))
        return fields

    def holds(self, item: Item, fields: Mapping[str, Json]) -> bool:
        """Return whether a sample has the tiles that it would get now: the configured ones, whatever the fallback is, or those of this very fallback.

        The fallback stands in no fingerprint, for it decides the bytes of those samples alone that memory did not suffice for. Of an adopted file the tiles
        are not known.
        """
        if fields["adopted"] or fields["tiling"] == item.inputs["tiling"]:
            return True
        _, fallback = self._tilings(item)
        return fallback is not None and fields["tiling"] == fallback.as_json()

    def _tilings(self, item: Item) -> tuple[Tiling | None, Tiling | None]:
        return self.flags.tilings(item.inputs["row"]["height"], item.inputs["row"]["width"])

    def adopt(self, item: Item) -> Fields | None:
        """Return the fields of a file that was made for this very item, or that no note is about and that verification in full cannot tell from one."""
        (out,) = item.outputs
        try:
            noted = unseal(read_json(self._note(item)))
        except DataError:
            noted = None
        except FileNotFoundError:
            unknown: Fields = {"adopted": 1, "tiling": None, "tiny": 1 if self.text.tiny else None, "vae": None}
            return self._noted(item, out, unknown) if self._is_sample(item) else None
        if noted is None or noted["fingerprint"] != item.fingerprint or not self.holds(item, noted["fields"]) or both_digests(out)[0] != noted["xxh3"]:
            return None
        return dict(noted["fields"])

    def _note(self, item: Item) -> Path:
        return sidecar_of(self.notes or self.place.stage / "notes", item.id)

    def _noted(self, item: Item, path: Path, made: Fields) -> Fields:
        """Return a whole sample's fields, once they are noted.   made : how, as far as it is known: of an adopted file not even the autoencoder is."""
        xxh3, sha256 = both_digests(path)
        fields: Fields = {**{name: item.inputs["row"][name] for name in KEPT}, "text_encoder": self.text.short, **made, "sha256": sha256}
        write_json(self._note(item), seal({"fields": fields, "fingerprint": item.fingerprint, "xxh3": xxh3}))
        return fields

    def _is_sample(self, item: Item) -> bool:
        """Whether a file is a sample of this item as far as can be told without encoding it."""
        import numpy as np
        import torch

        from vidlatents.store import load_sample
        from vidlatents.verify import Look, verify_file

        (out,) = item.outputs
        sample = self._sample(item)
        if verify_file(out, Look("full", None, kind_named(self.flags.model), self.flags.layout)):
            return False
        stored, (embed, mask) = load_sample(out), self._embedding(item)
        same_text = torch.equal(stored["prompt_embed"].to(embed.dtype), embed) and torch.equal(stored["prompt_attention_mask"], mask)
        if not same_text or stored["prompt_raw"] != sample.prompt:
            return False
        return np.array_equal(np.asarray(stored["first_frames_image"]), first_frame(sample))

    def _embedding(self, item: Item) -> tuple[torch.Tensor, torch.Tensor]:
        path = embedding_of(self.texts, item.inputs["row"]["prompt_digest"], item.inputs["encoder"])
        if not path.is_file() or digest_of(path) != item.inputs["embedding"]:
            raise stale_text(path.name, "another digest, or no such file")
        return read_embedding(path)

    def _sample(self, item: Item) -> Sample:
        """Return the sample of an item. What no byte depends on is no input of it: where its videos are, its bucket's key, and its cut but for the start."""
        row, (video, control) = item.inputs["row"], item.watched
        sample = sample_from({**row, "bucket_key": "", "cut": None, "video": "", "control": ""}, self.roots)
        return replace(sample, video=video, control=control, cut=(row["start"], row["start"] + sample.num_frame))

    def _name(self, sample: Sample, row: Fields) -> str:
        """Return how the plan names a sample's video: from the folder of its source on."""
        return str(fields_of(sample, row["source"], self.roots)["video"])


def _json(tiling: Tiling | None) -> Json:
    return tiling.as_json() if tiling else None


def _probes(row: Fields) -> tuple[Probe, Probe]:
    """Return what the plan saw of both videos, which are alike."""
    one = Probe(row["frames"], row["source_height"], row["source_width"], Fraction(row["fps"]) if row["fps"] else None, None)
    return one, one


def encode_items(planned: Sequence[Fields], texts: Mapping[str, Fields], encoder: Encoder) -> list[Item]:
    """Return an item for every row of a shard manifest of plan_latents; what earlier steps refused comes with its verdict.

    texts : rows of encode_text by id, the digest of a cleaned prompt.   Raises Fault (fault_stale) for a prompt without a row.
    """
    return [_item(row, texts, encoder) for row in planned]


def _item(row: Fields, texts: Mapping[str, Fields], encoder: Encoder) -> Item:
    if row["status"] != "ok":
        return Item(row["id"], None, verdict=upstream(row, PLAN_STEP))
    if row.get("elsewhere"):
        return Item(row["id"], None, verdict=row)
    out = (output_of(encoder.place, row["name"]),)
    if (embedded := texts.get(row["prompt_digest"])) is None:
        raise stale_text(f"prompt of {row['uttid']}", "no row")
    if embedded["status"] != "ok":
        known = {"id": row["id"], "uttid": row["uttid"], "path": row["video"], "status": "quarantined"}
        return Item(row["id"], None, out, verdict={**upstream(embedded, TEXT_STEP), **known, **_why(embedded)})
    first, _ = encoder.flags.tilings(row["height"], row["width"])
    (seen,) = embedded["files"].values()
    sample = sample_from(row, encoder.roots)
    inputs = {
        "row": {name: row[name] for name in {*READ, *KEPT, *NEEDED}},
        "encoder": encoder.text.short,
        "embedding": seen["digest"],
        "tiling": _json(first),
    }
    return Item(row["id"], inputs, out, watched=(sample.video, sample.control))


NEEDED = ("fps", "frames", "source_height", "source_width")
"""Further fields of the plan that reading a pair takes. They are of what the videos hold, as their digests are; where these are is in `watched`."""


def _why(row: Fields) -> Fields:
    return {name: row[name] for name in ("where", "found", "expected", "hint")}


def by_id(rows: Sequence[Fields]) -> dict[str, Fields]:
    """Return rows by their ids."""
    return {str(row["id"]): row for row in rows}


def spoilt_texts(prompts: Iterable[str], texts: Mapping[str, Fields], place: Place, encoder: str) -> list[Path]:
    """Return the embeddings of some prompts that have no row, or are not what their rows say; of those that encode_text refused there is none.

    prompts : digests of cleaned ones.   texts : rows of encode_text by id.   encoder : short digest of the text encoder.
    """
    found = []
    for digest in prompts:
        path, row = embedding_of(place, digest, encoder), texts.get(digest)
        if row is None:
            found.append(path)
        elif row["status"] == "ok":
            (seen,) = row["files"].values()
            if not path.is_file() or digest_of(path) != seen["digest"]:
                found.append(path)
    return found
