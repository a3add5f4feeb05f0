"""The workflow's own library: the typed configuration, the doctor, the estimate and the pages generated from them.

The Snakefile and every cluster job import `reelmill.config`, so it needs pydantic and PyYAML alone. See `python -m reelmill --help`.
"""
