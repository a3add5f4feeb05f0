"""Licences: what sources write of them, as SPDX ids, and what each asks of whoever publishes. Standard library alone."""

from __future__ import annotations

import re
from dataclasses import dataclass

UNKNOWN = "LicenseRef-unknown"
PUBLIC_DOMAIN = "LicenseRef-public-domain"
ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]*")
OWN = re.compile(r"LicenseRef-[A-Za-z0-9.-]+")
"""The form of an id that SPDX does not list."""
CC_URL = re.compile(r"creativecommons\.org/(licenses|publicdomain)/([a-z-]+)/([0-9.]+)(?:/([a-z]{2,3})\b)?", re.IGNORECASE)
VERSION = re.compile(r"v?([1-4]\.[05])")
CC_VERSIONS = ("1.0", "2.0", "2.5", "3.0", "4.0")
CC_KINDS = ("BY", "BY-SA", "BY-ND", "BY-NC", "BY-NC-SA", "BY-NC-ND")
AROUND = frozenset("licensed license licence under the at see cc a this work is available terms of".split())
"""Words that may stand around the address of a licence."""
PHRASES = (
    (r"creative\s+commons", "cc"),
    (r"non[\s-]*commercial", "nc"),
    (r"no[\s-]*deriv[a-z]*(?:\s+works)?", "nd"),
    (r"share[\s-]*alike", "sa"),
    (r"attribution", "by"),
)
FILLING = frozenset(("cc", "licence", "license", "licensed", "international", "unported", "generic", "the", "under", "a", "v", "version", "public"))
"""Words of a Creative Commons name that say nothing more. Any other word, such as a country, makes the licence unknown: it may change the terms."""


@dataclass(frozen=True, slots=True)
class License:
    """What a licence is called and asks.

    id : SPDX.   url : its text, "" if none.   needs_attribution : whoever passes it on must name the author.   commercial : may be used for profit.
    changes : changed copies may be passed on.
    """

    id: str
    name: str
    url: str
    needs_attribution: bool = True
    commercial: bool = True
    changes: bool = True


def _creative_commons() -> dict[str, License]:
    words = {"BY": "Attribution", "SA": "ShareAlike", "ND": "NoDerivatives", "NC": "NonCommercial"}
    suffix = {"4.0": "International", "3.0": "Unported"}
    made = {}
    for kind in CC_KINDS:
        for version in CC_VERSIONS:
            parts = kind.split("-")
            name = f"Creative Commons {'-'.join(words[part] for part in parts)} {version} {suffix.get(version, 'Generic')}"
            url = f"https://creativecommons.org/licenses/{kind.lower()}/{version}/"
            made[f"CC-{kind}-{version}"] = License(f"CC-{kind}-{version}", name, url, True, "NC" not in parts, "ND" not in parts)
    return made


LICENSES: dict[str, License] = {
    **_creative_commons(),
    **{
        entry.id: entry
        for entry in (
            License("CC0-1.0", "Creative Commons Zero 1.0 Universal", "https://creativecommons.org/publicdomain/zero/1.0/", False),
            License(PUBLIC_DOMAIN, "Public domain", "https://creativecommons.org/publicdomain/mark/1.0/", False),
            License("MIT", "MIT License", "https://spdx.org/licenses/MIT.html"),
            License("Apache-2.0", "Apache License 2.0", "https://www.apache.org/licenses/LICENSE-2.0"),
            License("BSD-2-Clause", "BSD 2-Clause License", "https://spdx.org/licenses/BSD-2-Clause.html"),
            License("BSD-3-Clause", "BSD 3-Clause License", "https://spdx.org/licenses/BSD-3-Clause.html"),
            License("MPL-2.0", "Mozilla Public License 2.0", "https://www.mozilla.org/MPL/2.0/"),
            License("ISC", "ISC License", "https://spdx.org/licenses/ISC.html"),
            License("Unlicense", "The Unlicense", "https://unlicense.org/", False),
            License("ODC-By-1.0", "Open Data Commons Attribution License 1.0", "https://opendatacommons.org/licenses/by/1-0/"),
        )
    },
}
"""SPDX id -> what it asks."""

NAMES = {
    "cc0": "CC0-1.0",
    "cc0 1.0": "CC0-1.0",
    "cc0 1.0 universal": "CC0-1.0",
    "cc0 public domain": "CC0-1.0",
    "creative commons zero": "CC0-1.0",
    "creative commons zero v1.0 universal": "CC0-1.0",
    "creative commons - public domain dedication": "CC0-1.0",
    "public domain": PUBLIC_DOMAIN,
    "public domain mark": PUBLIC_DOMAIN,
    "pd": PUBLIC_DOMAIN,
    "mit license": "MIT",
    "mit licence": "MIT",
    "the mit license": "MIT",
    "apache 2.0": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache license, version 2.0": "Apache-2.0",
    "apache license version 2.0": "Apache-2.0",
    'bsd 2-clause "simplified" license': "BSD-2-Clause",
    "bsd-2": "BSD-2-Clause",
    'bsd 3-clause "new" or "revised" license': "BSD-3-Clause",
    "bsd-3": "BSD-3-Clause",
    "mozilla public license 2.0": "MPL-2.0",
    "the unlicense": "Unlicense",
    "odc-by 1.0": "ODC-By-1.0",
}
"""Names as sources write them, in lower case. Only those that state their version, or have one alone."""


def spdx(text: str, source: str = "") -> str:
    """Return the SPDX id of a licence, LicenseRef-unknown where the text does not settle it.

    text : a name, an SPDX id, or the address of a Creative Commons licence.   source : "objaverse" means Sketchfab's names, which state no
    version and have one alone, 4.0. No other source's missing version is guessed.
    """
    plain = " ".join(text.split())
    known = {name.lower(): name for name in LICENSES} | NAMES
    if found := known.get(plain.lower().rstrip(".")):
        return found
    if OWN.fullmatch(plain):
        return plain
    if match := CC_URL.search(plain):
        found, rest = _from_url(*match.groups()), re.findall(r"[a-z0-9.]+", re.sub(r"\S*creativecommons\.org\S*", " ", plain).lower())
        # an address inside a sentence may be what the sentence denies
        alone = set(rest) <= AROUND or spdx(" ".join(rest), source) == found
        return found if alone else UNKNOWN
    return _from_words(plain.lower(), "4.0" if source == "objaverse" else "")


def spdx_of(name: str, url: str = "", source: str = "") -> str:
    """Return the SPDX id of a licence; its name as it stands where the id is not certain, "" where nothing is stated.

    url : where its text is, "" if not known; counts before the name.   source : sketchfab, whose names lack a version that is known. The same
    words mean an older version on Thingiverse.
    """
    for text in (url, name):
        if (found := spdx(text, "objaverse" if source == "sketchfab" else "")) != UNKNOWN:
            return found
    return " ".join(name.split())


def settled(text: str) -> str | None:
    """Return the id of a licence as a table or a configuration writes it, None where it is neither settled nor an id of SPDX's form.

    "" is LicenseRef-unknown. A Creative Commons id must be one that there is: CC-BY has no version.
    """
    if (found := spdx(text)) != UNKNOWN or text in ("", UNKNOWN):
        return found
    return text if ID.fullmatch(text) and not text.upper().startswith("CC") else None


def _from_url(room: str, kind: str, version: str, country: str | None) -> str:
    if room.lower() == "publicdomain":
        return {"zero": "CC0-1.0", "mark": PUBLIC_DOMAIN}.get(kind.lower(), UNKNOWN)
    ported = country and country.lower() != "deed"
    return UNKNOWN if ported else _listed(kind.lower().split("-"), version)


def _from_words(text: str, default: str) -> str:
    """Return the id of a Creative Commons name, in lower case.   default : the version where none is stated, "" for none."""
    for pattern, word in PHRASES:
        text = re.sub(pattern, f" {word} ", text)
    words = re.findall(r"[a-z0-9.]+", text)
    kinds = [word for word in words if word in ("by", "nc", "nd", "sa")]
    versions = {match[1] for word in words if (match := VERSION.fullmatch(word))}
    others = [word for word in words if word not in FILLING and word not in kinds and not VERSION.fullmatch(word)]
    if others or len(versions) > 1 or len(set(kinds)) != len(kinds):
        return UNKNOWN
    return _listed(kinds, versions.pop() if versions else default)


def _listed(kinds: list[str], version: str) -> str:
    """Return the id of these kinds in the order in which SPDX writes them, if there is such a licence."""
    ordered = "-".join(sorted((kind.upper() for kind in kinds), key=("BY", "NC", "ND", "SA").index)) if set(kinds) <= {"by", "nc", "nd", "sa"} else ""
    name = f"CC-{ordered}-{version}"
    return name if name in LICENSES else UNKNOWN


def license_of(name: str) -> License:
    """Return what a licence asks; of one that is not listed the most: attribution, no profit, no changes."""
    return LICENSES.get(name) or License(name or UNKNOWN, name or UNKNOWN, "", True, False, False)
