"""What is ours in the comparison with other packages: the settings that stand for a peer's model, the count of events, the table, what is missing."""

import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import h5py
import numpy as np
import pytest
from benchmarks import peers

from eventvox.__main__ import arguments
from eventvox.settings import VoxelSettings
from shardwork import command
from tests.eventvox.reference import ContrastSlicer

ROOT = Path(__file__).resolve().parents[2]
TOOLS = {tool.title: tool for tool in peers.TOOLS}
EVENTIFY = TOOLS["eventify-dvs"]
EVENTCV = TOOLS["eventcv"]


def settings_of(tool: peers.Tool) -> VoxelSettings:
    line = [part.format(video="a.mp4", out="a.h5") for part in tool.line[2:]]
    args: Namespace = arguments().parse_args(line)
    return command.settings_from(args, VoxelSettings)


def test_ours_is_measured_with_the_settings_of_the_format():
    assert settings_of(TOOLS["ours"]) == VoxelSettings()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ours_set_to_eventifys_model_gives_its_counts_for_every_pair_of_gray_values(dtype):
    before, after = (np.ascontiguousarray(values, np.uint8) for values in np.meshgrid(np.arange(256), np.arange(256)))
    change = np.log(after.astype(dtype) + dtype(1)) - np.log(before.astype(dtype) + dtype(1))
    expected = np.sign(change) * np.floor(np.abs(change) / 0.2)
    slicer = ContrastSlicer(before, settings_of(TOOLS["ours, set to eventify's model"]))
    assert np.array_equal(slicer.slice_events(after), expected)


def test_events_of_voxels_are_counted_by_size_not_by_sign(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["events"] = np.array([[[[3, -2]]], [[[0, -32768]]]], np.int16)
    assert peers.count_events(tmp_path / "a.h5") == 32773


def test_events_in_columns_are_counted_by_rows(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name in ("xs", "ys", "ts", "ps"):
            file[f"events/{name}"] = np.zeros(7, np.int16)
    assert peers.count_events(tmp_path / "a.h5") == 7


def test_a_peer_that_is_not_installed_is_named_with_its_pip_line():
    assert peers.installed(peers.Tool("x", (), "", "", "no-such-package-here"), sys.executable) == ""
    assert peers.missing(EVENTIFY, "") == "eventify-dvs: not installed: pip install eventify-dvs==0.2.0"


def test_a_peer_without_its_program_says_which(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert peers.missing(EVENTCV, "1.0.8") == "eventcv: no ffmpeg and ffprobe on the PATH"


def test_the_version_of_an_installed_package_is_found():
    assert peers.installed(peers.Tool("x", (), "", "", "h5py"), sys.executable) == h5py.__version__


def test_cpu_seconds_and_peak_are_those_of_the_process_run():
    # 200 MiB of ones, and a loop on the process's own CPU clock: neither depends on how busy the machine is.
    program = "import time\nblock = b'1' * (200 << 20)\nwhile time.process_time() < 0.3: pass"
    used = peers.run([sys.executable, "-c", program])
    assert used.cpu_seconds >= 0.3
    assert used.peak_mib >= 200


def test_a_tool_that_fails_is_named_by_its_last_line():
    with pytest.raises(peers.Failed, match=r"^exit 3: second$"):
        peers.run([sys.executable, "-c", "print('first'); print('second'); raise SystemExit(3)"])


def test_table_aligns_its_columns():
    assert peers.markdown([("tool", "CPU s"), ("ours", "1.5"), ("a peer", "12.0")]).splitlines() == [
        "| tool   | CPU s |",
        "|--------|------:|",
        "| ours   |   1.5 |",
        "| a peer |  12.0 |",
    ]


def test_the_benchmark_itself_loads_no_package():
    # What it starts counts at least as large as itself.
    program = "import sys, benchmarks.peers; print(sorted({'numpy', 'h5py', 'cv2'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


def test_every_peer_is_installed_in_the_version_that_was_read():
    assert [tool.title for tool in peers.TOOLS if tool.package and f"{tool.package}=={tool.version}" not in tool.pip.split()] == []
