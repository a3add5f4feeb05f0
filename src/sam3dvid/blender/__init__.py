"""The only place that imports bpy."""

from shardwork.errors import Fault

try:
    import bpy  # noqa: F401
except ImportError as error:
    hint = "install them: python -m reelmill doctor --libraries prints their Debian packages; then run the same command"
    raise Fault("fault_library", "bpy", str(error), "Blender with the system libraries that it needs", hint) from error
