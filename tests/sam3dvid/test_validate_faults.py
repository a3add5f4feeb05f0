"""Planted faults: a valid dataset passes both suites, and each way to spoil it fails the suite that names it, and no other."""

import pytest

from sam3dvid.validate import Choice, validate_dataset
from tests.sam3dvid.datasets import Lent, write_dataset
from tests.sam3dvid.faults_of_assets import ASSETS, LEAKS
from tests.sam3dvid.faults_of_files import JSON, MANIFEST, NAMES
from tests.sam3dvid.faults_of_pictures import PICTURES
from tests.sam3dvid.faults_of_records import CAMERA, OBJECT, ORIGIN, RECORD
from tests.sam3dvid.faults_of_visibility import SEEN

SMALL = Choice(("T1", "T2"), any_size=True)
FAULTS = [*NAMES, *MANIFEST, *JSON, *CAMERA, *OBJECT, *RECORD, *ORIGIN, *PICTURES, *ASSETS, *LEAKS, *SEEN]


@pytest.fixture(scope="module")
def valid(tmp_path_factory):
    return write_dataset(tmp_path_factory.mktemp("valid"))


def test_the_valid_dataset_passes(valid):
    report = validate_dataset(valid, SMALL)
    assert report.lines() == []
    assert [(part.suite, part.verdict) for part in report.suites] == [("T1", "passed"), ("T2", "passed")]
    assert report.valid


@pytest.fixture(scope="module")
def lent(valid, tmp_path_factory):
    return Lent(valid, tmp_path_factory.mktemp("lent") / "dataset")


@pytest.fixture
def dataset(lent):
    yield lent.root
    lent.put_right()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name.replace(" ", "_"))
def test_a_planted_fault_fails_the_suite_that_names_it_and_no_other(fault, dataset):
    fault.spoil(dataset)
    report = validate_dataset(dataset, SMALL)
    failed = {part.suite for part in report.suites if part.verdict == "failed"}
    assert failed == {fault.suite}, report.lines()
    assert any(line.startswith(f"{fault.suite}: ") and fault.text in line for line in report.lines()), report.lines()
    assert not report.valid


def test_no_two_faults_have_one_name():
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)


def test_the_dataset_that_all_faults_were_planted_in_was_put_right_after_each(lent):
    report = validate_dataset(lent.root, SMALL)
    assert report.valid, report.lines()
