"""Prompts as they are encoded: cleaned, and known by a digest. Loads without torch."""

from __future__ import annotations

import hashlib
import html
import re

MAX_TOKENS = 512
"""What a prompt is cut at, and padded to. Source: latents spec, "Text"."""


def clean(prompt: str) -> str:
    """Return the prompt as it is encoded: mended by ftfy, entities unescaped (twice, for those escaped twice), runs of white space as one space."""
    import ftfy

    text = html.unescape(html.unescape(ftfy.fix_text(prompt)))
    return re.sub(r"\s+", " ", text).strip()


def prompt_digest(prompt: str) -> str:
    """Return the sha256 of a cleaned prompt, as hex: equal for prompts that have one embedding."""
    return hashlib.sha256(clean(prompt).encode("utf-8", "surrogatepass")).hexdigest()
