import hashlib
import json
import zipfile
from dataclasses import replace

import pytest
import torch

from shardwork.errors import DataError
from tests.vidlatents.tiny_models import content
from vidlatents.__main__ import main
from vidlatents.models import MODELS
from vidlatents.store import load_sample, save_sample
from vidlatents.verify import LEVELS, Entry, Look, delete_bad, read_manifest, requeue_rows, verify_file, verify_folder, whole_zip

NAME = "a_49_32_48.pt"


@pytest.fixture
def sample(tmp_path):
    path = tmp_path / "latents" / NAME
    save_sample(path, content())
    return path


def codes(path, **look):
    return [finding.code for finding in verify_file(path, Look(**look))]


def entry_of(path):
    data = path.read_bytes()
    return {path.name: Entry(len(data), hashlib.sha256(data).hexdigest())}


def resave(path, **changes):
    """Write a sample's file again with other values, by torch alone; a value of None takes the key out."""
    values = {**load_sample(path), **changes}
    torch.save({key: value for key, value in values.items() if value is not None}, path)


@pytest.mark.parametrize("level", LEVELS)
def test_a_whole_sample_passes_every_level(sample, level):
    assert codes(sample, level=level, manifest=entry_of(sample)) == []


@pytest.mark.parametrize(("kind", "shape"), [("wan22-5b", None), ("wan21", (16, 13, 4, 6)), ("wan22-5b", (48, 13, 2, 3))])
def test_samples_of_both_kinds_and_layouts_pass(tmp_path, kind, shape):
    save_sample(tmp_path / NAME, content(kind, latent_shape=shape))
    assert codes(tmp_path / NAME) == []


@pytest.mark.parametrize("size", [0, 1, 1023])
def test_fewer_than_1024_bytes_are_named(sample, size):
    sample.write_bytes(sample.read_bytes()[:size])
    assert codes(sample, level="size") == ["E_FILE_SIZE"]


def cut_sizes(length):
    return [1024, 2048, length // 2, length - 23, length - 1]


@pytest.mark.parametrize("which", range(5))
def test_a_cut_file_is_named(sample, which):
    data = sample.read_bytes()
    sample.write_bytes(data[: cut_sizes(len(data))[which]])
    assert codes(sample, level="zip") == ["E_FILE_ZIP"]


def test_zeros_alone_are_named(sample):
    sample.write_bytes(bytes(1024))
    assert codes(sample, level="zip") == ["E_FILE_ZIP"]


def test_a_zeroed_tail_is_named(sample):
    data = sample.read_bytes()
    sample.write_bytes(data[:-512] + bytes(512))
    assert codes(sample, level="zip") == ["E_FILE_ZIP"]


def flip(path, member):
    """Flip one bit in the middle of a part of the archive."""
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo(f"archive/{member}")
    data = bytearray(path.read_bytes())
    lengths = [int.from_bytes(data[info.header_offset + at : info.header_offset + at + 2], "little") for at in (26, 28)]
    data[info.header_offset + 30 + sum(lengths) + info.file_size // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("member", ["data/0", "data/1", "data/2", "data.pkl"])
def test_one_flipped_bit_is_named_with_its_part(sample, member):
    flip(sample, member)
    found = verify_file(sample, Look("crc"))
    assert [finding.code for finding in found] == ["E_FILE_CRC"] and member in found[0].found


@pytest.mark.parametrize(("level", "name"), [("zip", "read"), ("crc", "testzip"), ("full", "read"), ("full", "readinto")])
def test_a_disk_that_fails_while_a_file_is_looked_at_is_no_fault_of_the_file(sample, monkeypatch, level, name):
    def fail(self, *given):
        self.error = OSError(5, "Input/output error")
        raise self.error

    if name == "testzip":
        monkeypatch.setattr("zipfile.ZipFile.testzip", fail)
    else:
        monkeypatch.setattr(f"shardwork.watched.WatchedFile.{name}", fail)
        if level == "full":
            monkeypatch.setattr("vidlatents.verify._bytes_wrong", lambda path, look: ())
    with pytest.raises(OSError, match="Input/output"):
        codes(sample, level=level)


@pytest.mark.parametrize(("padding", "whole"), [(1024 - 119, False), (1024 - 118, True)])
def test_a_zip_archive_below_1024_bytes_is_not_passed_over_by_a_run_that_appends(tmp_path, padding, whole):
    path = tmp_path / NAME
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a" * 10, bytes(padding))
    assert path.stat().st_size == 1024 - (not whole) and whole_zip(path) is whole


def test_a_flipped_bit_in_a_latent_loads_without_an_error(sample):
    flip(sample, "data/0")
    torch.load(sample, weights_only=False)


@pytest.mark.parametrize("more", [-1, 1])
def test_another_size_than_the_manifest_s_is_named(sample, more):
    manifest = {NAME: replace(entry_of(sample)[NAME], bytes=sample.stat().st_size + more)}
    assert codes(sample, level="manifest", manifest=manifest) == ["E_FILE_SIZE"]


def test_another_whole_sample_under_the_name_is_named_by_its_sha256(sample):
    manifest = entry_of(sample)
    save_sample(sample, content(seed=1))
    assert codes(sample, level="full", manifest=manifest) == []
    assert codes(sample, level="sha256", manifest=manifest) == ["E_FILE_DIGEST"]


@pytest.mark.parametrize("key", ["vae_latent", "control_latent", "prompt_embed", "prompt_attention_mask", "first_frames_image", "prompt_raw", "control_type"])
def test_a_missing_key_is_named(sample, key):
    resave(sample, **{key: None})
    assert codes(sample) == ["E_FILE_CONTENT"]


@pytest.mark.parametrize("key", ["vae_latent", "prompt_embed", "prompt_attention_mask"])
@pytest.mark.parametrize("made", [torch.Tensor.to_sparse, lambda value: torch.nested.nested_tensor([value, value]), lambda value: value.to("meta")])
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_a_tensor_without_plain_values_is_named_and_the_look_goes_on(sample, key, made):
    save_sample(sample.with_name("b_49_32_48.pt"), content())
    resave(sample, **{key: made(getattr(content(), key))})
    report = verify_folder(sample.parent, Look("full"))
    assert [(finding.file, finding.code) for finding in report.findings] == [(NAME, "E_FILE_CONTENT")] and len(report.files) == 2


def test_a_further_key_is_named(sample):
    resave(sample, extra=torch.zeros(1))
    assert codes(sample) == ["E_FILE_CONTENT"]


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda s: {"vae_latent": s["vae_latent"].half()}, "vae_latent of float16"),
        (lambda s: {"vae_latent": s["vae_latent"].fill_(float("nan"))}, "vae_latent holds NaN"),
        (lambda s: {"control_latent": s["control_latent"] / 0}, "control_latent holds NaN or infinity"),
        (lambda s: {"vae_latent": torch.stack([s["vae_latent"]] * 8)[0]}, "vae_latent is a part"),
        (lambda s: dict.fromkeys(("vae_latent", "control_latent"), s["vae_latent"]), "control_latent and vae_latent in one storage"),
        (lambda s: {"vae_latent": s["vae_latent"] * 0}, "vae_latent holds zeros alone"),
        (lambda s: {"control_latent": s["control_latent"] * 0}, "control_latent holds zeros alone"),
        (lambda s: {"vae_latent": s["vae_latent"].index_fill(4, torch.tensor([2]), -10001)}, "vae_latent with values to 10001"),
        (lambda s: {"prompt_embed": s["prompt_embed"] * 0}, "zero throughout for 5 of its 5 tokens"),
        (lambda s: {"prompt_embed": s["prompt_embed"].index_fill(0, torch.tensor([2]), 0)}, "zero throughout for 1 of its 5 tokens"),
        (lambda s: {"control_latent": s["control_latent"][:, :, :5].clone()}, "control_latent (1, 16, 5, 4, 6)"),
        (lambda s: {"prompt_embed": s["prompt_embed"].half()}, "prompt_embed of float16"),
        (lambda s: {"prompt_embed": s["prompt_embed"] + 1}, "not zero beyond"),
        (lambda s: {"prompt_embed": s["prompt_embed"].index_fill(0, s["prompt_attention_mask"].sum(), 1.0)}, "not zero beyond"),
        (lambda s: {"prompt_embed": s["prompt_embed"][..., None].clone()}, "prompt_embed (512, 32, 1)"),
        (lambda s: {"vae_latent": s["vae_latent"].mT.contiguous().mT}, "vae_latent is a part"),
        (lambda s: {"control_latent": s["control_latent"].requires_grad_()}, "control_latent asks for a gradient"),
        (lambda s: {"prompt_embed": s["prompt_embed"][:226].clone()}, "prompt_embed (226, 32)"),
        (lambda s: {"prompt_attention_mask": s["prompt_attention_mask"].bool()}, "prompt_attention_mask of bool"),
        (lambda s: {"prompt_attention_mask": s["prompt_attention_mask"] * 0}, "with sum 0"),
        (lambda s: {"prompt_attention_mask": s["prompt_attention_mask"].flip(0)}, "prompt_attention_mask (512,)"),
        (lambda s: {"first_frames_image": s["first_frames_image"].convert("L")}, "first_frames_image L 48x32"),
        (lambda s: {"first_frames_image": s["first_frames_image"].resize((32, 48))}, "first_frames_image RGB 32x48"),
        (lambda s: {"prompt_raw": 3}, "prompt_raw of int"),
        (lambda s: {"control_type": "edge"}, "control_type 'edge'"),
    ],
)
def test_a_wrong_value_is_named(sample, change, found):
    resave(sample, **change(load_sample(sample)))
    wrong = verify_file(sample, Look())
    assert {finding.code for finding in wrong} == {"E_FILE_CONTENT"} and any(found in finding.found for finding in wrong), wrong


@pytest.mark.parametrize("name", ["a_66_32_48.pt", "a_49_64_48.pt", "a_49_32_56.pt", "a_32_32_48.pt"])
def test_a_right_file_under_a_wrong_name_is_named(sample, name):
    assert "E_FILE_CONTENT" in codes(sample.rename(sample.with_name(name)))


@pytest.mark.parametrize("size", [(36, 48), (32, 52)])
def test_a_name_whose_size_the_model_cannot_have_made_is_named(tmp_path, size):
    path = tmp_path / f"a_49_{size[0]}_{size[1]}.pt"
    save_sample(path, content(height=size[0], width=size[1]))
    assert [finding.expected for finding in verify_file(path, Look())] == ["multiples of 8"]


def test_49_whole_frames_under_the_name_of_53_are_named(tmp_path):
    save_sample(tmp_path / "a_53_32_48.pt", content(latent_shape=(16, 13, 4, 6)))
    assert codes(tmp_path / "a_53_32_48.pt") == ["E_FILE_CONTENT"]


def test_one_section_of_49_frames_under_the_name_of_53_is_named_by_the_manifest(sample):
    manifest = entry_of(sample)
    sample.rename(sample.with_name("a_53_32_48.pt"))
    found = verify_folder(sample.parent, Look(manifest=manifest)).findings
    assert [(finding.file, finding.code) for finding in found] == [("a_53_32_48.pt", "E_FILE_EXTRA"), (NAME, "E_FILE_MISSING")]


def test_a_sample_of_the_other_model_is_named(sample):
    assert codes(sample, kind=MODELS["wan22-5b"]) == ["E_FILE_CONTENT"]


def test_a_sample_of_the_other_layout_is_named(sample):
    assert codes(sample, layout="whole") == ["E_FILE_CONTENT"]


@pytest.mark.parametrize("other", [content("wan22-5b"), content(latent_shape=(16, 13, 4, 6))], ids=["model", "layout"])
def test_two_models_or_layouts_in_a_folder_are_named(sample, other):
    save_sample(sample.with_name("b_49_32_48.pt"), other)
    assert [finding.file for finding in verify_folder(sample.parent, Look()).findings] == ["."]


@pytest.mark.parametrize("name", ["model.pt", "a_b.pt", "a_49_32_x.pt", ".pt", "_49_32_48.pt", "a_049_32_48.pt"])
def test_a_foreign_pt_file_is_named(sample, name):
    sample.with_name(name).write_bytes(b"x")
    assert [(finding.file, finding.code) for finding in verify_folder(sample.parent, Look()).findings] == [(name, "E_FILE_EXTRA")]


@pytest.mark.parametrize("name", ["dataset_cache.pkl", ".a_49_32_48.pt.0123456789ab.tmp", "notes.txt"])
def test_files_that_no_trainer_takes_for_samples_are_left_alone(sample, name):
    sample.with_name(name).write_bytes(b"x")
    assert verify_folder(sample.parent, Look()).findings == ()


def test_a_pickle_that_would_run_code_is_named_unrun(sample):
    class Evil:
        def __reduce__(self):
            return (open, (str(sample.parent / "ran"), "w"))

    torch.save({"vae_latent": Evil(), "x": torch.zeros(500)}, sample)
    assert codes(sample) == ["E_FILE_LOAD"] and not (sample.parent / "ran").exists()


def test_a_latent_with_values_that_are_zero_or_large_is_whole(sample):
    resave(sample, vae_latent=load_sample(sample)["vae_latent"].index_fill(4, torch.tensor([2]), 0).index_fill(4, torch.tensor([3]), 1e4))
    assert codes(sample) == []


def test_a_name_with_a_leading_dot_is_no_sample_of_ours(sample):
    sample.rename(sample.with_name(f".{NAME}"))
    assert [finding.code for finding in verify_folder(sample.parent, Look()).findings] == ["E_FILE_EXTRA"]


def test_bad_links_are_deleted_and_folders_stay_and_are_named(sample, tmp_path, capsys):
    sample.with_name("link_49_32_48.pt").symlink_to("/nowhere")
    sample.with_name("linked_49_32_48.pt").symlink_to(tmp_path)
    sample.with_name("folder_49_32_48.pt").mkdir()
    assert main(["verify", str(sample.parent), "--delete-bad"]) == 1
    assert {path.name for path in sample.parent.iterdir()} == {NAME, "folder_49_32_48.pt"} and sample.exists() and tmp_path.exists()
    said = capsys.readouterr().out
    assert "folder_49_32_48.pt: stays" in said and "link_49_32_48.pt: a link that leads nowhere, expected a file" in said


def test_bad_samples_are_deleted_and_foreign_files_stay(sample):
    bad, foreign = sample.with_name("b_49_32_48.pt"), sample.with_name("model.pt")
    bad.write_bytes(bytes(10))
    foreign.write_bytes(b"x")
    assert delete_bad(sample.parent, verify_folder(sample.parent, Look())) == [bad.name]
    assert sorted(path.name for path in sample.parent.iterdir()) == [NAME, "model.pt"]


def test_a_whole_sample_that_the_manifest_does_not_name_is_not_deleted(sample):
    save_sample(sample.with_name("b_49_32_48.pt"), content())
    report = verify_folder(sample.parent, Look(manifest=entry_of(sample)))
    assert [finding.code for finding in report.findings] == ["E_FILE_EXTRA"] and delete_bad(sample.parent, report) == []


def test_a_bad_sample_is_queued_with_its_uttid_and_bucket(sample):
    sample.with_name("a_1_2_49_32_48.pt").write_bytes(bytes(10))
    rows = requeue_rows(verify_folder(sample.parent, Look()))
    assert [(row["uttid"], row["bucket_num_frame"], row["bucket_height"], row["bucket_width"], row["codes"]) for row in rows] == [
        ("a_1_2", 49, 32, 48, ["E_FILE_SIZE"])
    ]


@pytest.mark.parametrize("level", ["manifest", "sha256"])
def test_a_level_that_needs_a_manifest_is_refused_without_one(sample, level):
    with pytest.raises(DataError) as caught:
        verify_folder(sample.parent, Look(level))
    assert caught.value.code == "bad_argument"


def test_rows_of_samples_that_failed_are_no_files(tmp_path):
    rows = [{"uttid": "b", "code": "E_DECODE"}, {"file": NAME, "bytes": 5, "sha256": None}]
    (tmp_path / "m.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert read_manifest(tmp_path / "m.jsonl") == {NAME: Entry(5, None)}


def test_the_command_exits_0_for_whole_samples(sample, capsys):
    assert main(["verify", str(sample.parent)]) == 0
    assert "1 files, none with faults" in capsys.readouterr().out


def test_the_command_exits_1_and_names_the_fault(sample, capsys):
    sample.write_bytes(bytes(1024))
    assert main(["verify", str(sample.parent)]) == 1
    assert f"{NAME}: no end of a zip archive" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["verify", "no/such"], ["verify", ".", "--level", "sha256"], ["verify"], ["verify", ".", "--model", "wan3"]])
def test_the_command_exits_2_where_it_cannot_look(arguments, capsys):
    try:
        assert main(arguments) == 2
    except SystemExit as stop:
        assert stop.code == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_a_manifest_that_is_not_there_is_named_and_why_it_may_not_be(sample, tmp_path, capsys):
    path = tmp_path / "none.jsonl"
    assert main(["verify", str(sample.parent), "--manifest", str(path)]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"error: {path}: no such file") and "has not ended has none yet" in said


def test_a_file_that_cannot_be_read_or_written_is_the_one_that_is_named(sample, tmp_path, capsys):
    for flag in ("--manifest", "--requeue"):
        assert main(["verify", str(sample.parent), flag, str(tmp_path)]) == 2
        assert capsys.readouterr().err.startswith(f"error: {tmp_path}: ")


def test_the_command_says_how_what_it_deleted_is_made_again(sample, capsys):
    sample.write_bytes(bytes(1024))
    main(["verify", str(sample.parent)])
    assert "verify=full" not in capsys.readouterr().out
    main(["verify", str(sample.parent), "--delete-bad"])
    assert "the workflow with --config verify=full" in capsys.readouterr().out


def test_the_command_deletes_queues_and_says_so_in_json(sample, tmp_path, capsys):
    flip(sample, "data/0")
    queue = tmp_path / "again.jsonl"
    assert main(["verify", str(sample.parent), "--delete-bad", "--requeue", str(queue), "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert (said["valid"], said["deleted"], [row["code"] for row in said["findings"]]) == (False, [NAME], ["E_FILE_CRC"])
    assert json.loads(queue.read_text())["uttid"] == "a" and not sample.exists()


@pytest.mark.parametrize("name", ["{elsewhere}/b_49_32_48.pt", "../elsewhere/b_49_32_48.pt", "sub/b_49_32_48.pt", "", ".", "..", "b_49_32_48.pt\0"])
def test_a_manifest_that_names_a_file_elsewhere_is_refused(tmp_path, name):
    (tmp_path / "m.jsonl").write_text(json.dumps({"file": name.format(elsewhere=tmp_path / "elsewhere"), "bytes": 5, "sha256": None}) + "\n")
    with pytest.raises(DataError, match="E_FIELD"):
        read_manifest(tmp_path / "m.jsonl")


def test_what_was_not_found_in_the_folder_is_not_deleted(sample, tmp_path):
    good = tmp_path / "elsewhere" / "b_49_32_48.pt"
    save_sample(good, content())
    names = (str(good), "../elsewhere/b_49_32_48.pt")
    report = verify_folder(sample.parent, Look("size", {NAME: Entry(1, None), **dict.fromkeys(names, Entry(1, None))}))
    assert delete_bad(sample.parent, report) == [] and good.exists() and sample.exists()


def test_a_manifest_without_digests_condemns_no_file(sample):
    assert codes(sample, level="sha256", manifest={NAME: Entry(sample.stat().st_size, None)}) == []
