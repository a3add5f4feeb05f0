"""What sources write of licences, as SPDX ids: settled or unknown, never guessed."""

from __future__ import annotations

import pytest

from sam3dvid.assets.licenses import LICENSES, license_of, spdx

STATED = {
    "Creative Commons Attribution 4.0 International": "CC-BY-4.0",
    "Attribution 4.0 International": "CC-BY-4.0",
    "CC BY 4.0": "CC-BY-4.0",
    "cc-by-4.0": "CC-BY-4.0",
    "CC BY-NC-SA 4.0": "CC-BY-NC-SA-4.0",
    "Creative Commons Attribution-NonCommercial-ShareAlike 3.0 Unported License": "CC-BY-NC-SA-3.0",
    "Creative Commons Attribution Share Alike 4.0 International": "CC-BY-SA-4.0",
    "Creative Commons Attribution-NoDerivs 2.0 Generic": "CC-BY-ND-2.0",
    "Creative Commons Attribution Non Commercial No Derivatives 4.0 International": "CC-BY-NC-ND-4.0",
    "CC BY-SA-NC 4.0": "CC-BY-NC-SA-4.0",
    "http://creativecommons.org/licenses/by/4.0/": "CC-BY-4.0",
    "https://creativecommons.org/licenses/by-nc-nd/2.5/legalcode": "CC-BY-NC-ND-2.5",
    "https://creativecommons.org/publicdomain/zero/1.0/": "CC0-1.0",
    "https://creativecommons.org/publicdomain/mark/1.0/": "LicenseRef-public-domain",
    "CC0": "CC0-1.0",
    "cc0-1.0": "CC0-1.0",
    "CC0 1.0 Universal": "CC0-1.0",
    "Public domain": "LicenseRef-public-domain",
    "MIT": "MIT",
    "MIT License": "MIT",
    "Apache License 2.0": "Apache-2.0",
    "LicenseRef-studio-contract": "LicenseRef-studio-contract",
}


@pytest.mark.parametrize("text", STATED)
def test_a_licence_that_is_stated_has_its_id(text):
    assert spdx(text) == STATED[text]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "by",
        "CC BY",
        "Creative Commons Attribution",
        "by-nc-sa",
        "CC BY 3.0 US",  # the port may differ
        "https://creativecommons.org/licenses/by/3.0/us/",
        "CC BY 4.0 or MIT",
        "Not licensed under https://creativecommons.org/licenses/by/4.0/, all rights reserved",
        "CC-BY-NC-4.0, formerly https://creativecommons.org/licenses/by/4.0/",
        "CC BY 5.0",
        "CC BY-SA-ND 4.0",
        "CC 4.0",
        "CC BY 3.0 4.0",
        "all rights reserved",
        "free",
        "GNU General Public License v3.0",  # only, or any later
    ],
)
def test_a_licence_that_is_not_settled_is_unknown(text):
    assert spdx(text) == "LicenseRef-unknown"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("by", "CC-BY-4.0"),
        ("by-nc-sa", "CC-BY-NC-SA-4.0"),
        ("cc0", "CC0-1.0"),
        ("Creative Commons - Attribution - Share Alike", "CC-BY-SA-4.0"),
        ("", "LicenseRef-unknown"),
    ],
)
def test_sketchfabs_names_mean_version_4(text, name):
    assert spdx(text, "objaverse") == name


def test_a_stated_version_counts_for_sketchfab_too():
    assert spdx("CC BY 3.0", "objaverse") == "CC-BY-3.0"


@pytest.mark.parametrize("name", LICENSES)
def test_every_id_of_the_table_is_its_own_name(name):
    assert spdx(name) == spdx(name.lower()) == spdx(LICENSES[name].url if "creativecommons" in LICENSES[name].url else name) == name


@pytest.mark.parametrize(
    ("name", "asks"),
    [("CC-BY-4.0", (True, True, True)), ("CC0-1.0", (False, True, True)), ("CC-BY-NC-ND-4.0", (True, False, False)), ("LicenseRef-x", (True, False, False))],
)
def test_what_a_licence_asks(name, asks):
    found = license_of(name)
    assert (found.needs_attribution, found.commercial, found.changes) == asks


def test_a_licence_has_its_address():
    assert license_of("CC-BY-NC-SA-4.0").url == "https://creativecommons.org/licenses/by-nc-sa/4.0/"
