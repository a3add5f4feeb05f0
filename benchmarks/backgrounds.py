"""Turn 8K panoramas of noise (JPEG, HDR, EXR) into four views each and print CPU seconds and memory beside their limits.

Each measurement is a process of its own. CPU seconds and memory are those of the work: reading, exposing, averaging, four views, four JPEG files; imports
are left out. CPU seconds count all threads, so a machine that is busy with other things changes them little. The exit code is 1 if a limit is exceeded.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

WIDTH, HEIGHT = 8192, 4096
KINDS = ("jpg", "hdr", "exr")
SECONDS, MEGABYTES = 8.0, 1000.0
"""The limits for one panorama."""


def write_panoramas(folder: Path) -> None:
    """Write one scene in each format: a sky brighter than its ground, with detail down to single pixels."""
    import cv2
    import numpy as np
    import OpenEXR
    from PIL import Image

    rng = np.random.default_rng(0)
    coarse = np.exp(rng.standard_normal((HEIGHT // 4, WIDTH // 4, 3), np.float32) / 2)
    light = cv2.resize(coarse, (WIDTH, HEIGHT)) * np.linspace(1.2, 0.2, HEIGHT, dtype=np.float32)[:, None, None]
    light *= np.maximum(1 + rng.standard_normal((HEIGHT, WIDTH, 1), np.float32) / 10, np.float32(0.1))
    cv2.imwrite(str(folder / "panorama.hdr"), light[..., ::-1])
    header = {"compression": OpenEXR.ZIP_COMPRESSION, "type": OpenEXR.scanlineimage}
    OpenEXR.File(header, {"RGB": light.astype(np.float16)}).write(str(folder / "panorama.exr"))
    Image.fromarray((255 * (light / (1 + light)) ** (1 / 2.2)).astype(np.uint8)).save(folder / "panorama.jpg", quality=95)


def one(source: Path) -> None:
    """Measure one panorama in this process and print it as JSON: CPU seconds and memory in MB beyond the imports."""
    import cv2  # noqa: F401
    import OpenEXR  # noqa: F401

    from sam3dvid.backgrounds.panorama import read_reduced
    from sam3dvid.backgrounds.polyhaven_pool import write_jpeg
    from sam3dvid.backgrounds.projection import prefilter_width, view
    from sam3dvid.backgrounds.settings import PanoramaSettings

    settings = PanoramaSettings()
    Path("/proc/self/clear_refs").write_text("5")
    resting, before = peak_mb(), time.process_time()
    panorama, _ = read_reduced(source, prefilter_width(settings.width, settings.hfov_deg))
    for k in range(settings.views):
        write_jpeg(source.with_name(f"v{k}.jpg"), view(panorama, settings.yaw_deg(k), settings.width, settings.height), settings.quality)
    print(json.dumps({"seconds": time.process_time() - before, "mb": peak_mb() - resting}))


def peak_mb() -> float:
    """Return the peak of this process's memory in MB of 1,000,000 bytes."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024 / 1e6


def main() -> int:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    arguments.add_argument("--one", type=Path, metavar="FILE", help="measure this panorama in this process")
    args = arguments.parse_args()
    if args.one:
        one(args.one)
        return 0
    kept = True
    print(f"| {WIDTH} x {HEIGHT} to four views | CPU s | limit | memory MB | limit |")
    print("| --- | ---: | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as folder:
        write_panoramas(Path(folder))
        for kind in KINDS:
            command = [sys.executable, __file__, "--one", f"{folder}/panorama.{kind}"]
            found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
            print(f"| {kind} | {found['seconds']:.2f} | {SECONDS:.0f} | {found['mb']:.0f} | {MEGABYTES:.0f} |")
            kept &= found["seconds"] <= SECONDS and found["mb"] <= MEGABYTES
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
