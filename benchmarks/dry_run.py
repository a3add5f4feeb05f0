"""Print what `snakemake -n` costs for a table of 20,000 videos: CPU seconds and peak memory."""

import argparse
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from shardwork.tables import write_table

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--videos", type=int, default=20_000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        rows = ({"video_id": f"v_{n:011d}", "path": f"v/{n}.mp4", "split": "train", "bytes": "1", "mtime_ns": "2"} for n in range(args.videos))
        write_table(Path(name, "videos.csv"), ("video_id", "path", "split", "bytes", "mtime_ns"), rows)
        Path(name, "config.yaml").write_text("run: big\nevents:\n  table: videos.csv\n")
        line = [str(Path(sys.executable).parent / "snakemake"), "-s", str(ROOT / "Snakefile"), "-d", name, "--configfile", f"{name}/config.yaml", "-n"]
        said = subprocess.run(line, check=True, capture_output=True, text=True).stdout
        total = next(line.split()[1] for line in said.splitlines() if line.startswith("total"))
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{args.videos} videos: {total} jobs, {used.ru_utime + used.ru_stime:.1f} CPU s, {used.ru_maxrss / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
