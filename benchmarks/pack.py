"""Pack files once and compare with GNU tar and sha256sum: CPU seconds a side, and whether the bytes are equal."""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from shardwork.digests import xxh3_file
from shardwork.tarball import Member, write_tar
from shardwork.tarscan import scan_tar

GNU_TAR = ["tar", "--format=gnu", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner", "--mode=0644"]


def cpu_seconds(who: int) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=15)
    parser.add_argument("--mib", type=int, default=40, help="size of each file")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = [folder / f"v_{index:02d}.h5" for index in range(args.files)]
        for file in files:
            file.write_bytes(os.urandom(args.mib << 20))
        members = [Member(file.name, file, args.mib << 20, xxh3_file(file)) for file in files]
        start = cpu_seconds(resource.RUSAGE_SELF)
        ours = write_tar(folder / "ours.tar", members)
        packed = cpu_seconds(resource.RUSAGE_SELF)
        scanned = scan_tar(folder / "ours.tar", payload=True)
        verified = cpu_seconds(resource.RUSAGE_SELF)
        subprocess.run([*GNU_TAR, "-C", name, "-cf", f"{name}/theirs.tar", *(file.name for file in files)], check=True)
        said = subprocess.run(["sha256sum", f"{name}/theirs.tar"], check=True, capture_output=True, text=True).stdout
        theirs = cpu_seconds(resource.RUSAGE_CHILDREN)
    megabytes = args.files * args.mib * 1.048576
    for title, seconds in (("pack", packed - start), ("verify", verified - packed), ("tar and sha256sum", theirs)):
        print(f"{title:18} {seconds:6.2f} CPU s {megabytes / seconds:6.0f} MB/s")
    print(f"ratio {theirs / (packed - start):.1f}, equal bytes: {said.split()[0] == ours.sha256 == scanned.sha256}")


if __name__ == "__main__":
    main()
