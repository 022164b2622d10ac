"""The launcher suite passes on a launcher that is right, and catches each fault of one that is wrong."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def outcomes(outcomes_of):
    return outcomes_of("launchers.py")


def test_a_launcher_that_is_right_passes_and_is_not_asked_for_abilities_that_it_does_not_declare(outcomes):
    others = {name: outcome for name, outcome in outcomes["TestRight"].items() if outcome != "passed"}
    assert others == {
        "test_kill_takes_along_what_left_the_session": "skipped",
        "test_memory_comes_from_the_nodes_given": "skipped",
    }


def test_each_fault_is_caught_by_the_test_of_the_promise_it_breaks(outcomes):
    faults = {name: {*tests.values()} for name, tests in outcomes.items() if name != "TestRight"}
    assert len(faults) > 30
    assert {name for name, seen in faults.items() if "failure" not in seen} == set()
