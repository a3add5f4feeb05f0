"""How the inner loops of ray casting are compiled, and the modules that they are made from."""

from __future__ import annotations

from pathlib import Path

from shardwork.compiled import compiler

__all__ = ["compiled"]

compiled = compiler(tuple(Path(__file__).parent / f"{name}.py" for name in ("bvh", "compiled", "exact", "raster")))
