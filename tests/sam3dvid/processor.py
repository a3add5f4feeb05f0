"""A processor without wide or fused instructions, as far as this one can be told to be such."""

from __future__ import annotations

import os
import sys


def plain_processor() -> dict[str, str]:
    """Return an environment in which numpy, the C library, OpenBLAS and numba use what the oldest 64-bit processors have."""
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([".", *sys.path]),
        "NPY_DISABLE_CPU_FEATURES": "AVX2 FMA3 AVX512F AVX512CD AVX512_SKX",
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4,-AVX512F",
        "OPENBLAS_CORETYPE": "Nehalem",
        "NUMBA_CPU_NAME": "x86-64" if os.uname().machine == "x86_64" else "generic",
        "NUMBA_CPU_FEATURES": "",
    }
