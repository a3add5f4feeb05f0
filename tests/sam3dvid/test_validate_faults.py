"""Planted faults: a valid dataset passes both suites, and each way to spoil it fails the suite that names it, and no other."""

import shutil

import pytest

from sam3dvid.validate import Choice, validate_dataset
from tests.sam3dvid.datasets import write_dataset
from tests.sam3dvid.spoiled import FAULTS

SMALL = Choice(any_size=True)


@pytest.fixture(scope="module")
def valid(tmp_path_factory):
    return write_dataset(tmp_path_factory.mktemp("valid"))


def test_the_valid_dataset_passes(valid):
    report = validate_dataset(valid, SMALL)
    assert report.lines() == []
    assert [(part.suite, part.verdict) for part in report.suites] == [("T1", "passed"), ("T2", "passed")]
    assert report.valid


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name.replace(" ", "_"))
def test_a_planted_fault_fails_the_suite_that_names_it_and_no_other(fault, valid, tmp_path):
    root = tmp_path / "dataset"
    shutil.copytree(valid, root)
    fault.spoil(root)
    report = validate_dataset(root, SMALL)
    failed = {part.suite for part in report.suites if part.verdict == "failed"}
    assert failed == {fault.suite}, report.lines()
    assert any(line.startswith(f"{fault.suite}: ") and fault.text in line for line in report.lines()), report.lines()
    assert not report.valid


def test_no_two_faults_have_one_name():
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
