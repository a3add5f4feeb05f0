"""Names of many work shards as a short text for a command line, which holds 128 KiB and not thousands of names. Standard library alone."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise

from shardwork.errors import DataError
from shardwork.shards import parse_shard, shard_name

TEXT = re.compile(r"([0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*)/([1-9][0-9]*)")


def short(names: Iterable[str]) -> str:
    """Return names of one cut as text: 0000-of-0020, 0001-of-0020 and 0007-of-0020 are 0-1,7/20. Raises DataError (bad_argument)."""
    parsed = sorted({parse_shard(name) for name in names})
    cuts = {count for _, count in parsed}
    if len(cuts) != 1:
        raise DataError("bad_argument", "--shards", f"{len(cuts)} cuts into work shards", "names of one", "give those of one work_shards")
    numbers = [number for number, _ in parsed]
    starts = [numbers[0], *(after for before, after in pairwise(numbers) if after != before + 1)]
    ends = [*(before for before, after in pairwise(numbers) if after != before + 1), numbers[-1]]
    return ",".join(f"{start}-{end}" if start != end else f"{start}" for start, end in zip(starts, ends, strict=True)) + f"/{cuts.pop()}"


def names(text: str) -> tuple[str, ...]:
    """Return the names that `short` was given, sorted. Raises DataError (bad_argument)."""
    found: list[int] = []
    if match := TEXT.fullmatch(text):
        count = int(match[5])
        for span in match[1].split(","):
            first, _, last = span.partition("-")
            found += range(int(first), min(int(last or first), count) + 1)
    if not found or sorted(set(found)) != found or found[-1] >= count:
        raise DataError(
            "bad_argument", "--shards", repr(text[:60]), "numbers and spans of work shards such as 0-1,7/20", "see the line that snakemake -p prints"
        )
    return tuple(shard_name(number, count) for number in found)
