"""Processors and NUMA nodes of processes."""

from __future__ import annotations

import os
import threading

import pytest

from monarch._mesh import command
from monarch.actor import Actor, endpoint, this_host
from monarch.errors import MonarchError, SpawnError, SupervisionError

CPUS = sorted(os.sched_getaffinity(0))
FIRST, LAST = CPUS[0], CPUS[-1]


class Bound(Actor):
    @endpoint
    def cpus(self):
        return sorted(os.sched_getaffinity(0))

    @endpoint
    def policies(self):
        with open("/proc/self/numa_maps") as file:
            return {line.split()[1] for line in file}

    @endpoint
    def cpus_of_every_thread(self):
        return {tuple(sorted(os.sched_getaffinity(int(thread)))) for thread in os.listdir("/proc/self/task")}


def cpus_of(mesh):
    return list(mesh.spawn("bound", Bound).cpus.call().get(20).values())


@pytest.mark.parametrize("key", ["cpus", "physcpubind"])
def test_each_process_runs_on_its_own_processors(crew, key):
    assert cpus_of(crew(2, proc_bind=[{key: str(FIRST)}, {key: str(LAST)}])) == [[FIRST], [LAST]]


def test_lists_and_ranges_of_processors_are_understood(crew):
    text = ",".join(f"{cpu}-{cpu}" for cpu in (FIRST, LAST))
    assert cpus_of(crew(1, proc_bind=[{"cpus": text}])) == [sorted({FIRST, LAST})]


def test_every_thread_of_the_process_is_bound(crew):
    bound = crew(1, proc_bind=[{"cpus": str(LAST)}]).spawn("bound", Bound)
    assert bound.cpus_of_every_thread.call_one().get(20) == {(LAST,)}


def test_a_process_without_an_entry_of_its_own_runs_anywhere(crew):
    assert cpus_of(crew(2, proc_bind=[{"cpus": str(LAST)}, {}])) == [[LAST], CPUS]


def test_binding_processes_leaves_the_program_and_its_next_processes_alone(crew):
    cpus_of(crew(1, proc_bind=[{"cpus": str(LAST)}]))
    here = {tuple(sorted(os.sched_getaffinity(int(thread)))) for thread in os.listdir("/proc/self/task")}
    assert here == {tuple(CPUS)}
    assert cpus_of(crew(1)) == [CPUS]


def test_the_processors_of_a_node_are_read_on_the_host(monkeypatch, tmp_path):
    for node, cpus in enumerate(("0-1,4", "2-3\n")):
        (tmp_path / f"node{node}").mkdir()
        (tmp_path / f"node{node}" / "cpulist").write_text(cpus)
    monkeypatch.setattr(command, "_NODES", tmp_path)
    bound = command.resolve_binding({"cpunodebind": "0-1", "membind": "1"})
    assert (bound.cpus, bound.memory_nodes) == ({0, 1, 2, 3, 4}, {1})


def test_memory_comes_from_the_given_node_or_the_host_says_why_not(crew):
    """A kernel may keep this from a container; then the process must not run unbound."""
    bound = crew(1, proc_bind=[{"membind": "0"}]).spawn("bound", Bound)
    answer = bound.policies.call_one()
    if refusal := answer.exception(20):
        assert "cannot bind memory to nodes [0]" in str(refusal)
    else:
        assert answer.get() >= {"bind:0"}


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_binding_for_each_process_of_the_host_is_needed(count):
    with pytest.raises(ValueError, match=f"proc_bind has {count} entries.*2 processes"):
        this_host().spawn_procs(per_host={"procs": 2}, proc_bind=[{}] * count)


def test_an_unknown_key_is_refused_with_the_keys_there_are():
    with pytest.raises(SpawnError, match="'cpu'; the keys are cpus, physcpubind, cpunodebind, membind"):
        this_host().spawn_procs(proc_bind=[{"cpu": "0"}])


@pytest.mark.parametrize("value", ["first", "1-x", "1.5", "-1", "3-1"])
def test_what_is_no_list_of_numbers_is_refused_with_an_example(value):
    with pytest.raises(
        MonarchError, match=r"proc_bind takes numbers and rising ranges up to .*, such as '0-3,8'"
    ):
        this_host().spawn_procs(proc_bind=[{"cpus": value}])


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        pytest.param({"cpus": "1023"}, "1023", id="processor"),
        pytest.param({"cpunodebind": "999"}, "NUMA node 999", id="node"),
    ],
)
def test_what_the_host_does_not_have_fails_the_process_with_its_number(crew, entry, message):
    with pytest.raises(SupervisionError, match=f"could not be started.*{message}"):
        crew(1, proc_bind=[entry]).initialized.get(20)


def test_a_spawn_that_fails_leaves_the_threads_of_the_program_unbound(crew):
    with pytest.raises(SupervisionError):
        crew(1, proc_bind=[{"cpus": "1023"}]).initialized.get(20)
    assert threading.active_count() > 1
    assert cpus_of(crew(1)) == [CPUS]
