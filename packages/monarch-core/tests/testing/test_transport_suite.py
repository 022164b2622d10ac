"""The transport suite passes on a transport that is right, and catches each fault of one that is wrong."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def outcomes(outcomes_of):
    return outcomes_of("transports.py", "faulty_transport")


def test_a_transport_that_is_right_passes(outcomes):
    assert {name for name, outcome in outcomes["TestRight"].items() if outcome != "passed"} == set()


def test_what_needs_an_ability_that_is_not_declared_is_skipped_and_nothing_else(outcomes):
    skipped = {name for name, outcome in outcomes["TestWithoutAbilities"].items() if outcome == "skipped"}
    assert {name.partition("[")[0] for name in skipped} == {
        "test_bytes_of_a_stranger_end_its_connection_and_nothing_else",
        "test_a_stranger_that_hangs_up_does_no_harm",
    }


def test_each_fault_is_caught_by_the_test_of_the_promise_it_breaks(outcomes):
    faults = {
        name: {*tests.values()}
        for name, tests in outcomes.items()
        if name not in ("TestRight", "TestWithoutAbilities")
    }
    assert len(faults) > 40
    assert {name for name, seen in faults.items() if "failure" not in seen} == set()
