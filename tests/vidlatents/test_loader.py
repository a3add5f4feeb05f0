from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from shardwork.errors import DataError
from tests.vidlatents.tiny_models import KINDS, content, frames, of, vae
from vidlatents.encode import encode
from vidlatents.loader import BucketBatches, LatentDataset, PairDataset, make_loader, window
from vidlatents.records import Sample, name_of, parse_name
from vidlatents.store import load_sample, save_sample


def sample_of(uttid, count=5, height=16, width=24):
    return Sample(uttid, Path("v.mp4"), Path("c.mp4"), f"prompt of {uttid}", "key", count, height, width, None, None, {})


def read(sample):
    return SimpleNamespace(
        rgb=frames(sample.num_frame, sample.height, sample.width, seed=ord(sample.uttid[0])), control=frames(sample.num_frame, sample.height, sample.width, 7)
    )


def pairs(*samples):
    return PairDataset(samples, read)


def test_a_batch_has_the_fields_and_shapes_of_the_seed():
    batch = next(iter(make_loader(pairs(sample_of("a"), sample_of("b")), 2)))
    assert batch["uttid"] == ["a", "b"] and batch["prompts"] == ["prompt of a", "prompt of b"]
    assert batch["video_metadata"] == {"num_frames": [5, 5], "height": [16, 16], "width": [24, 24]}
    assert {key: tuple(batch[key].shape) for key in ("videos", "control_videos", "first_frames_images")} == {
        "videos": (2, 5, 3, 16, 24),
        "control_videos": (2, 5, 3, 16, 24),
        "first_frames_images": (2, 3, 16, 24),
    }
    assert set(batch) == {"uttid", "video_metadata", "videos", "control_videos", "prompts", "first_frames_images"}


def test_videos_run_from_minus_1_to_1_in_their_own_order():
    sample = sample_of("a")
    batch = next(iter(make_loader(pairs(sample), 1)))
    np.testing.assert_allclose(batch["videos"][0].permute(0, 2, 3, 1).numpy(), read(sample).rgb / 127.5 - 1, atol=1e-6)
    np.testing.assert_allclose(batch["control_videos"][0].permute(0, 2, 3, 1).numpy(), read(sample).control / 127.5 - 1, atol=1e-6)


def test_the_first_frame_keeps_its_grey_codes():
    sample = sample_of("a")
    found = next(iter(make_loader(pairs(sample), 1)))["first_frames_images"][0]
    assert found.dtype == torch.uint8 and np.array_equal(found.permute(1, 2, 0).numpy(), read(sample).rgb[0])


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_permuted_as_the_seed_says_encodes_to_our_latent(kind):
    sample = sample_of("a", 33, 32, 48)
    videos = next(iter(make_loader(pairs(sample), 1)))["videos"].permute(0, 2, 1, 3, 4).contiguous()
    model = vae(kind)
    with torch.no_grad():
        latent = (model.model.encode(videos).latent_dist.mode()[0] - model.mean) / model.std
    torch.testing.assert_close(latent[None], encode(model, read(sample).rgb, "sections", "mode", of()), rtol=0, atol=1e-5)


def test_a_batch_holds_one_bucket():
    samples = [sample_of(letter, 5 if letter in "ace" else 9) for letter in "abcdef"]
    batches = list(make_loader(pairs(*samples), 2, shuffle=True, seed=3))
    assert sorted(len(batch["uttid"]) for batch in batches) == [1, 1, 2, 2]
    assert sorted(uttid for batch in batches for uttid in batch["uttid"]) == list("abcdef")


def test_a_pair_that_cannot_be_read_is_not_replaced_by_another():
    def broken(sample):
        if sample.uttid == "b":
            raise DataError("E_DECODE", "b", "0 frames", "5", "mend it")
        return read(sample)

    loader = iter(make_loader(PairDataset([sample_of("a"), sample_of("b")], broken), 1))
    next(loader)
    with pytest.raises(DataError, match="E_DECODE"):
        next(loader)


def test_buckets_of_pairs_are_frames_height_and_width():
    assert pairs(sample_of("a"), sample_of("b", 9, 16, 32)).buckets == [(5, 16, 24), (9, 16, 32)]


def test_a_loader_draws_nothing_from_the_process_s_own_stream():
    before = torch.get_rng_state()
    next(iter(make_loader(pairs(sample_of("a")), 1, shuffle=True)))
    assert torch.equal(torch.get_rng_state(), before)


def test_worker_processes_give_the_same_batches():
    samples = [sample_of(letter) for letter in "abc"]
    one, two = (list(make_loader(pairs(*samples), 2, workers=workers, shuffle=True)) for workers in (0, 1))
    assert [batch["uttid"] for batch in one] == [batch["uttid"] for batch in two]
    assert all(torch.equal(a["videos"], b["videos"]) for a, b in zip(one, two, strict=True))


def test_epochs_have_other_orders_and_a_seed_repeats_them():
    def orders(seed):
        batches = BucketBatches([0] * 50, 4, shuffle=True, seed=seed)
        found = []
        for epoch in range(2):
            batches.set_epoch(epoch)
            found.append(list(batches))
        return found

    first, second = orders(1)
    assert first != second and [first, second] == orders(1) and first != orders(2)[0]


def test_ranks_share_batches_that_divide_and_none_is_seen_twice():
    shares = [list(BucketBatches(list("aabbbcc"), 2, shuffle=True, rank=rank, ranks=2)) for rank in range(2)]
    assert sorted(index for share in shares for batch in share for index in batch) == list(range(7))


@pytest.mark.parametrize(("even", "length"), [("repeat", 3), ("drop", 2)])
def test_every_rank_gets_as_many_batches(even, length):
    samplers = [BucketBatches([0] * 5, 1, rank=rank, ranks=2, even=even) for rank in range(2)]
    assert [len(list(sampler)) for sampler in samplers] == [len(sampler) for sampler in samplers] == [length, length]


def test_batches_that_do_not_divide_are_repeated_from_the_first_or_dropped_from_the_last():
    def seen(ranks, even):
        return sorted(batch[0] for rank in range(ranks) for batch in BucketBatches([0] * 3, 1, rank=rank, ranks=ranks, even=even))

    assert (seen(2, "repeat"), seen(8, "repeat")) == ([0, 0, 1, 2], [0, 0, 0, 1, 1, 1, 2, 2])
    assert (seen(2, "drop"), seen(8, "drop")) == ([0, 1], [])


def test_another_way_of_evening_out_is_refused():
    with pytest.raises(ValueError, match="repeat or drop"):
        BucketBatches([0], 1, even="pad")


@pytest.fixture
def folder(tmp_path):
    for number, uttid in enumerate(["x_1", "y", "short"]):
        shape = (3, 16, 9, 4, 6) if uttid != "short" else (1, 16, 9, 4, 6)
        save_sample(tmp_path / f"{uttid}_{121 if uttid != 'short' else 33}_32_48.pt", content(latent_shape=shape, seed=number))
    (tmp_path / "dataset_cache.pkl").write_bytes(b"of a consumer")
    return tmp_path


def test_samples_below_121_frames_are_left_out_as_the_public_trainer_does(folder):
    assert [file.uttid for file in LatentDataset(folder).files] == ["x_1", "y"]


def test_latents_come_in_the_shapes_that_the_public_trainer_takes(folder):
    batch = next(iter(make_loader(LatentDataset(folder), 2)))
    shapes = {key: tuple(value.shape) for key, value in batch.items() if isinstance(value, torch.Tensor)}
    assert shapes == {
        "x0_latents": (2, 16, 1, 4, 6),
        "history_latents": (2, 16, 19, 4, 6),
        "target_latents": (2, 16, 9, 4, 6),
        "control_history_latents": (2, 16, 19, 4, 6),
        "control_target_latents": (2, 16, 9, 4, 6),
        "prompt_embeds": (2, 512, 32),
        "prompt_attention_masks": (2, 512),
    }


def consumer(path, section):
    """What the public trainer takes from a file, written down again: a line of all sections after 19 empty latent frames."""
    latent = torch.load(path, map_location="cpu", weights_only=False)["vae_latent"]
    line = torch.cat([torch.zeros(16, 19, 4, 6), *latent], dim=1)
    at = 9 * section
    return latent[0][:, :1] * (section > 0), line[:, at : at + 19], line[:, at + 19 : at + 28]


@pytest.mark.parametrize("section", range(3))
def test_a_section_is_cut_as_the_public_trainer_cuts_it(folder, section):
    path = folder / "y_121_32_48.pt"
    found = window(load_sample(path)["vae_latent"], section)
    for ours, theirs in zip((found.x0, found.history, found.target), consumer(path, section), strict=True):
        assert torch.equal(ours, theirs)


def test_video_and_control_are_cut_at_the_same_section(folder):
    dataset, stored = LatentDataset(folder), load_sample(folder / "y_121_32_48.pt")
    for epoch in range(6):
        dataset.set_epoch(epoch)
        item = dataset[1]
        at = next(section for section in range(3) if torch.equal(item["target_latents"], stored["vae_latent"][section]))
        assert torch.equal(item["control_target_latents"], stored["control_latent"][at])


def test_epochs_choose_other_sections(folder):
    dataset, first = LatentDataset(folder), []
    for epoch in range(12):
        dataset.set_epoch(epoch)
        first.append(float(dataset[0]["target_latents"].sum()))
    assert len(set(first)) == 3


def test_files_of_one_epoch_choose_their_sections_apart(folder):
    dataset, chosen = LatentDataset(folder), []
    for epoch in range(12):
        dataset.set_epoch(epoch)
        starts = [bool((item["x0_latents"] == 0).all()) for item in (dataset[0], dataset[1])]
        chosen.append(starts)
    assert [True, False] in chosen and [False, True] in chosen


def test_an_item_says_what_its_files_name_says_and_the_raw_prompt(folder):
    item = LatentDataset(folder)[0]
    names = ("uttid", "bucket_key", "num_frame", "height", "width", "prompt_raws")
    assert [item[name] for name in names] == ["x_1", (121, 32, 48), 121, 32, 48, "A red ball."]


def test_a_foreign_pt_file_is_an_error_that_names_it(folder):
    (folder / "model.pt").write_bytes(b"x")
    with pytest.raises(ValueError, match=r"model\.pt"):
        LatentDataset(folder)


def test_a_file_of_the_layout_whole_is_an_error_that_names_it(tmp_path):
    save_sample(tmp_path / "w_121_32_48.pt", content(latent_shape=(16, 31, 4, 6)))
    with pytest.raises(ValueError, match=r"w_121_32_48\.pt.*sections"):
        LatentDataset(tmp_path)[0]


@pytest.mark.parametrize("uttid", ["sample_000001", "a_49_480_1920", "x_", "_x", "v_-abc", "übung 1", "clip_0-121", "a\nb"])
def test_a_name_is_read_from_the_right(uttid):
    assert parse_name(name_of(sample_of(uttid, 49, 480, 1920))) == (uttid, 49, 480, 1920)
