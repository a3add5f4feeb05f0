"""The estimate: sums worked out by hand, unknown videos counted and said, and a disk that will not do is warned of."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from reelmill import estimate, estimate_assets
from reelmill.__main__ import main
from reelmill.config import ClipsConfig, Config, EventsConfig, RenderConfig
from reelmill.machine import Disk
from shardwork.errors import DataError
from shardwork.shards import shard_of

HEADER = "video_id,path,split,bytes,mtime_ns,width,height,frames,fps,duration_seconds\n"
TABLE = Path("videos.csv")
GIB = 1 << 30


def row(video_id: str, width: str = "", height: str = "", frames: str = "") -> dict[str, str]:
    return {"video_id": video_id, "path": f"{video_id}.mp4", "width": width, "height": height, "frames": frames}


def of(
    rows: list[dict[str, str]], work_shards: int = 20, workers: int = 1, free: int = 100 * GIB, inodes: int | None = 10**6, controls: bool = False
) -> estimate.Estimate:
    config = Config(run="demo", events=EventsConfig(table="videos.csv", work_shards=work_shards, workers=workers, controls=controls))
    return estimate.of_rows(rows, TABLE, config, Disk(Path("/disk"), free, inodes), cores=4.0)


def test_pixels_cpu_and_disk_are_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate, "VOXELIZE_NS_PER_PIXEL", 36.0)
    monkeypatch.setattr(estimate, "VALIDATE_NS_PER_PIXEL", 9.0)
    monkeypatch.setattr(estimate, "OUTPUT_BYTES_PER_PIXEL", 0.5)
    found = of([row("a", "1000", "1000", "100"), row("b", "1000", "1000", "300")], work_shards=1)
    assert (found.videos, found.unknown, found.shards, found.jobs, found.pixels) == (2, 0, 1, 2, 400_000_000)
    assert found.cpu_hours == pytest.approx(0.005) and found.job_hours == pytest.approx(0.004) and found.output_bytes == 200_000_000
    assert found.inodes == 2 * estimate.FILES_PER_VIDEO + estimate.FILES_PER_SHARD


def test_controls_add_their_jobs_time_and_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("VOXELIZE_NS_PER_PIXEL", 36.0), ("VALIDATE_NS_PER_PIXEL", 9.0), ("CONTROL_NS_PER_PIXEL", 45.0), ("CONTROL_BYTES_PER_PIXEL", 2.0)):
        monkeypatch.setattr(estimate, name, value)
    monkeypatch.setattr(estimate, "OUTPUT_BYTES_PER_PIXEL", 1.0)
    rows = [row("a", "1000", "1000", "400")]
    found = of(rows, work_shards=1, controls=True, free=10**9)
    assert (found.jobs, found.output_bytes, found.control_bytes) == (3, 400_000_000, 800_000_000)
    assert found.cpu_hours == pytest.approx(0.01) and found.job_hours == pytest.approx(0.005)
    assert found.inodes == 2 * estimate.FILES_PER_VIDEO + estimate.FILES_PER_SHARD + estimate.FILES_PER_CONTROL_SHARD
    assert "controls  762.9 MiB of control videos beside them" in estimate.lines(found)
    assert "the event files and control videos will not fit" in warnings(found)[0] and of(rows).control_bytes == 0


def test_jobs_are_counted_for_shards_that_hold_videos_alone() -> None:
    ids = [f"v{index}" for index in range(5)]
    found = of([row(name, "10", "10", "10") for name in ids], work_shards=1000)
    assert found.shards == len({shard_of(name, 1000) for name in ids}) and found.jobs == 2 * found.shards


def test_unknown_video_counts_as_the_mean_and_is_said() -> None:
    found = of([row("a", "10", "10", "100"), row("b", "10", "10", "300"), row("c"), row("d", "10", "10", "0")])
    assert (found.unknown, found.pixels) == (2, 80_000)
    assert "note      2 of 4 videos have no width, height or frames in the table: counted as the mean of the others" in estimate.lines(found)


def test_table_without_header_columns_is_refused() -> None:
    with pytest.raises(DataError, match=r"videos.csv: no row says width, height and frames.*\[bad_table\]"):
        of([{"video_id": "a", "path": "a.mp4"}])
    with pytest.raises(DataError, match=r"videos.csv: no rows.*\[bad_table\]"):
        of([])


def test_header_value_that_is_no_number_is_refused() -> None:
    with pytest.raises(DataError, match=r"videos.csv: 'a': width is '1e3'.*\[bad_table\]"):
        of([row("a", "1e3", "10", "10")])


def warnings(found: estimate.Estimate) -> list[str]:
    return [line for line in estimate.lines(found) if line.startswith("warning")]


def test_disk_that_will_not_do_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate, "OUTPUT_BYTES_PER_PIXEL", 1.0)
    rows = [row("a", "1024", "1024", "1024")]
    assert warnings(of(rows, free=2 * GIB)) == []
    assert "a packed release beside them does not" in warnings(of(rows, free=2 * GIB - 1))[0]
    assert "will not fit on the disk of /disk: free 1.0 GiB" in warnings(of(rows, free=0))[0]


def test_too_few_inodes_are_warned_of() -> None:
    rows = [row("a", "10", "10", "10")]
    assert warnings(of(rows, inodes=estimate.FILES_PER_VIDEO + estimate.FILES_PER_SHARD)) == [] == warnings(of(rows, inodes=None))
    assert "too few inodes" in warnings(of(rows, inodes=estimate.FILES_PER_VIDEO + estimate.FILES_PER_SHARD - 1))[0]


def test_long_jobs_are_warned_of_with_a_better_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate, "VOXELIZE_NS_PER_PIXEL", 3600.0)
    rows = [row("a", "1000", "1000", "4000")]  # 4 CPU hours
    assert warnings(of(rows, work_shards=3)) == ["warning   the longest job takes 4.0 h: work_shards: 24 would make jobs of about half an hour"]
    assert warnings(of(rows, workers=4)) == []


def test_workers_beyond_the_cores_do_not_shorten_a_job() -> None:
    rows = [row("a", "1000", "1000", "4000")]
    assert of(rows, workers=8).job_hours == of(rows, workers=4).job_hours == of(rows).job_hours / 4


def test_command_prints_the_estimate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, config = tmp_path / "videos.csv", tmp_path / "run.yaml"
    table.write_text(HEADER + "a,a.mp4,train,1,1,100,100,100,25,4\n")
    config.write_text(f"run: demo\nresults: {tmp_path}\nevents:\n  table: {table}\n")
    assert main(["estimate", "--configfile", str(config)]) == 0
    assert capsys.readouterr().out.splitlines()[:2] == [
        "events    1 videos, 0.00 billion pixels",
        "jobs      2 (2 for each of 1 work shards) and a few that close the run",
    ]


@pytest.mark.parametrize(
    ("text", "code"),
    [("run: demo\n", "bad_argument"), ("run: demo\nevents: {table: no.csv}\n", "bad_table"), ("run: demo\nevents: {}\nx: 1\n", "E_CONFIG_KEY")],
)
def test_bad_input_exits_2(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, code: str) -> None:
    config = tmp_path / "run.yaml"
    config.write_text(text)
    assert main(["estimate", "--configfile", str(config)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("error: ") and lines[0].endswith(f"[{code}]") and len(lines) == (2 if code == "E_CONFIG_KEY" else 1)


@pytest.mark.parametrize(("count", "text"), [(0, "0.0 B"), (1023, "1,023.0 B"), (1024, "1.0 KiB"), (3 * GIB // 2, "1.5 GiB"), (1 << 70, "1,048,576.0 PiB")])
def test_size_is_written_in_the_largest_unit(count: int, text: str) -> None:
    assert estimate.size(count) == text


@pytest.mark.parametrize(("hours", "text"), [(0.001, "4 s"), (0.5, "30 min"), (1.0, "1.0 h"), (1234.5, "1,234.5 h")])
def test_time_is_written_in_a_fitting_unit(hours: float, text: str) -> None:
    assert estimate.hours(hours) == text


def test_run_lasts_at_least_as_long_as_its_longest_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate, "VOXELIZE_NS_PER_PIXEL", 3600.0)
    monkeypatch.setattr(estimate, "VALIDATE_NS_PER_PIXEL", 0.0)
    shown = estimate.lines(of([row("a", "1000", "1000", "2000")]))
    assert "CPU       2.0 h: about 2.0 h on 4 cores; the longest job 2.0 h" in shown


def test_estimate_holds_every_figure_it_shows() -> None:
    found = dataclasses.replace(of([row("a", "10", "10", "10")]), disk=Disk(Path("/disk"), GIB, None))
    assert "inodes    14; free: not counted" in estimate.lines(found)


def test_assets_are_counted_with_their_textures_and_voxels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate_assets, "ASSET_SECONDS", 2.0)
    monkeypatch.setattr(estimate_assets, "START_SECONDS", 10.0)
    monkeypatch.setattr(estimate_assets, "VOXEL_BYTES", 1000)
    rows = [{"asset_id": name, "bytes": "500", "parts": '[["t.png", 70, 1], ["m.mtl", 30, 1]]'} for name in "abc"]
    part = estimate_assets.assets_part(rows, TABLE, work_shards=1, workers=1)
    assert (part.jobs, part.bytes) == (2, 3 * (500 + 70 + 30 + 1000))
    assert part.cpu_hours == part.job_hours == pytest.approx(16 / 3600)


def test_pool_counts_the_panoramas_that_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate_assets, "PANORAMA_SECONDS", 8.0)
    part = estimate_assets.panoramas_part(50, limit=20, views=2, workers=4)
    assert part.what == "20 panoramas, 40 views" and part.cpu_hours == pytest.approx(20 * 4 / 3600) and part.job_hours == pytest.approx(20 / 3600)


def test_command_estimates_every_section_with_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "assets.csv").write_text("asset_id,bytes,parts\na,1048576,[]\n")
    (tmp_path / "panoramas.csv").write_text("slug\na\nb\n")
    config = tmp_path / "config.yaml"
    config.write_text(f"run: x\nassets:\n  table: {tmp_path}/assets.csv\nbackgrounds:\n  polyhaven:\n    table: {tmp_path}/panoramas.csv\n")
    assert main(["estimate", "--configfile", str(config)]) == 0
    said = capsys.readouterr().out
    assert "assets    1 assets, their files 1.0 MiB" in said and "pool      2 panoramas, 8 views" in said


SECONDS = {"PLAN_SECONDS": 1.0, "RENDER_SECONDS": 24.0, "SAMPLE_SECONDS": 1.0, "FINISH_SECONDS": 4.0, "CONTROL_SECONDS": 3.0, "EXPORT_SECONDS": 1.0}
SIZES = {
    "START_SECONDS": 10.0,
    "CLIP_BYTES": 900,
    "EXPORT_BYTES": 100,
    "CONTROL_BYTES": 100,
    "CLIP_INODES": 320,
    "CONTROL_INODES": 3,
    "FILES_PER_CLIP_SHARD": 7,
}


def clips_of(monkeypatch: pytest.MonkeyPatch, count: int, clips_per_shard: int, samples: int = 64, **keys) -> estimate_assets.Part:
    """Return what clips take if one of whole size costs 88 s to render with 64 samples, 5 s to plan and finish, and 1 s to export."""
    for name, value in (SECONDS | SIZES).items():
        monkeypatch.setattr(estimate_assets, name, value)
    config = ClipsConfig(split="eval", count=count, clips_per_shard=clips_per_shard, render=RenderConfig(samples=samples), **keys)
    return estimate_assets.clips_part(config)


def test_clips_are_four_jobs_for_every_shard_begun_or_five_with_controls_and_three_more(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [clips_of(monkeypatch, count, 100).jobs for count in (1, 100, 101)] == [7, 7, 11]
    assert clips_of(monkeypatch, 101, 100, controls=True).jobs == 13
    assert clips_of(monkeypatch, 100, 100, first=99).jobs == 11, "a run that begins within a shard ends within another"


def test_clips_cost_time_and_disk_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    part = clips_of(monkeypatch, 250, 100)
    assert part.what == "250 clips of eval" and part.bytes == 250_000 and part.inodes == 250 * 320 + 3 * 7
    assert part.cpu_hours * 3600 == pytest.approx(250 * (88 + 5 + 1) + 15 * 10)
    assert part.job_hours * 3600 == pytest.approx(100 * 88 / 2 + 10), "the job that renders, on its two threads"


def test_controls_cost_time_and_disk_too(monkeypatch: pytest.MonkeyPatch) -> None:
    part = clips_of(monkeypatch, 10, 10, controls=True)
    assert part.cpu_hours * 3600 == pytest.approx(10 * (88 + 5 + 3 + 1) + 8 * 10)
    assert (part.bytes, part.inodes) == (11_000, 10 * (320 + 3) + 7)


def test_fewer_samples_cost_less_and_more_threads_shorten_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    few = clips_of(monkeypatch, 100, 100, samples=8)
    assert few.cpu_hours * 3600 == pytest.approx(100 * (32 + 5 + 1) + 7 * 10)
    assert few.job_hours * 3600 == pytest.approx(100 * 32 / 2 + 10)


def test_clips_of_smaller_frames_cost_by_their_pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, small = clips_of(monkeypatch, 100, 100), clips_of(monkeypatch, 100, 100, size=256, frames=16)
    assert whole.job_hours * 3600 == pytest.approx(4410) and small.job_hours * 3600 == pytest.approx(10 + 4400 / 8)
    assert (whole.bytes, small.bytes) == (100_000, 12_500)


def test_long_job_of_clips_is_a_warning_with_shards_of_half_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(Path("/disk"), GIB, None)
    warned = [line for line in estimate_assets.lines(clips_of(monkeypatch, 9000, 900), disk, 4.0) if line.startswith("warning")]
    assert warned == ["warning   the longest job takes 11.0 h: clips_per_shard: 40 would make jobs of about half an hour"]
    assert len(estimate_assets.lines(clips_of(monkeypatch, 3000, 40), disk, 4.0)) == 4


def test_long_export_is_a_warning_with_workers_since_it_is_one_job(monkeypatch: pytest.MonkeyPatch) -> None:
    warned = [line for line in estimate_assets.lines(clips_of(monkeypatch, 14_400, 40), Disk(Path("/disk"), GIB, None), 4.0) if line.startswith("warning")]
    assert warned == ["warning   the longest job takes 4.0 h: that is the export: clips.workers: 8 would make it half an hour"]


def test_command_estimates_clips_from_the_configuration_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "assets.csv").write_text("asset_id,bytes,parts\na,1048576,[]\n")
    config = tmp_path / "config.yaml"
    config.write_text(
        f"run: x\nassets:\n  table: {tmp_path}/assets.csv\nbackgrounds:\n  polyhaven:\n    pool: {tmp_path}/none\nclips:\n  split: train\n  count: 10000\n"
        "  clips_per_shard: 1000\n"
    )
    assert main(["estimate", "--configfile", str(config)]) == 0
    assert "clips     10,000 clips of train\njobs      43\n" in capsys.readouterr().out
