"""Which videos promise many events: words for motion in their captions, whole words and their inflections alone."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache

KEYWORDS = "run jump throw catch kick hit swing spin flip dance skate ski surf swim dive row ride climb box wrestle fence lift bounce serve shoot"

PAST = {
    "catch": ("caught",),
    "dive": ("dived", "dove"),
    "hit": (),
    "ride": ("rode", "ridden"),
    "run": ("ran",),
    "shoot": ("shot",),
    "spin": ("spun",),
    "swim": ("swam", "swum"),
    "swing": ("swung",),
    "throw": ("threw", "thrown"),
}
"""Words whose past has other forms than -ed. An irregular form of a word that is not here is listed as a keyword of its own."""

_TOKEN = re.compile(r"\w+")


def keyword_hits(sentences: Iterable[str], words: Sequence[str]) -> tuple[str, ...]:
    """Return the words, in their base form and sorted, of which a form stands in any sentence; upper and lower case are one.

    A noun of the same form counts too (a row of chairs, a cardboard box): no grammar is read.
    """
    bases = _bases(tuple(words))
    tokens = {token for sentence in sentences for token in _TOKEN.findall(unicodedata.normalize("NFC", sentence).casefold())}
    return tuple(sorted({bases[token] for token in tokens & bases.keys()}))


@lru_cache(maxsize=8)
def _bases(words: tuple[str, ...]) -> dict[str, str]:
    return {form: word for word in words for form in inflections(word)}


def inflections(word: str) -> frozenset[str]:
    """Return a verb's forms: itself, -s, -ing, and its past. No agent nouns (skier)."""
    return frozenset({word, _third_person(word), _stem_of_ing(word) + "ing", *PAST.get(word, (_regular_past(word),))})


def _third_person(word: str) -> str:
    if _ends_in_consonant_y(word):
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("s", "x", "z", "ch", "sh", "o")) else "s")


def _regular_past(word: str) -> str:
    if _ends_in_consonant_y(word):
        return word[:-1] + "ied"
    return word + "d" if word.endswith("e") else (_doubled(word) or word) + "ed"


def _stem_of_ing(word: str) -> str:
    if word.endswith("ie"):
        return word[:-2] + "y"
    if word.endswith("e") and not word.endswith(("ee", "oe", "ye")):
        return word[:-1]
    return _doubled(word) or word


def _doubled(word: str) -> str:
    """Return a word of one syllable with its last consonant doubled, as for running; empty where it stays single (row, box, kick, lift, shoot)."""
    return word + word[-1] if re.fullmatch(r"[^aeiouy]*[aeiou][^aeiouywx]", word) else ""


def _ends_in_consonant_y(word: str) -> bool:
    return re.search(r"[^aeiou]y$", word) is not None
