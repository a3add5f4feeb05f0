"""Whether a dataset of clips keeps its format, from its files alone: `python -m sam3dvid.validate DATASET`. No Blender, no planner."""

from sam3dvid.validate.determinism import Again
from sam3dvid.validate.report import Report, SuiteReport
from sam3dvid.validate.run import Choice, validate_dataset

__all__ = ["Again", "Choice", "Report", "SuiteReport", "validate_dataset"]
