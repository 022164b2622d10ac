"""Measures starts and ends of processes, with torch, over the public API alone.

Prints one line, `RESULT` and a JSON object. Runs unchanged on every system that has the API;
`actors.py` beside it runs this several times and compares.
"""

import argparse
import json
import os
import signal
import time
from pathlib import Path

import torch

import monarch.actor
from monarch.actor import Actor, endpoint, this_host


class User(Actor):
    """Uses torch, as every process of a training job does."""

    def __init__(self):
        self.tensor = torch.ones(1000)

    @endpoint
    def use(self):
        return float(self.tensor.sum())

    @endpoint
    def pid(self):
        return os.getpid()

    @endpoint
    def memory(self):
        """Return this process's share of memory in bytes: pages that others map too count in part."""
        lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))

    @endpoint
    def sleep(self, seconds):
        time.sleep(seconds)


def seconds_to_hear(one):
    """Kill a process in the midst of a call; return the seconds until the call raises."""
    pid = one.pid.call_one().get()
    asleep = one.sleep.call_one(60)
    time.sleep(0.5)  # the call is under way
    began = time.perf_counter()
    os.kill(pid, signal.SIGKILL)
    try:
        asleep.get(timeout=50)
    except TimeoutError:
        raise
    except Exception:
        return time.perf_counter() - began
    raise AssertionError("the call of a killed process has returned")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--quick", action="store_true", help="two processes: does it run at all?")
    options = parser.parse_args()
    size = 2 if options.quick else options.processes
    # Where the peer would end the program for a lost process, though the call has raised it.
    monarch.actor.unhandled_fault_hook = lambda failure: None

    result = {"monarch": monarch.actor.__file__}
    began = time.perf_counter()
    users = this_host().spawn_procs(per_host={"procs": size}).spawn("user", User)
    users.use.call().get()
    result["torch_spawn_s"] = time.perf_counter() - began
    shares = list(users.memory.call().get().values())
    result["torch_memory_bytes"] = sum(shares) / len(shares)
    result["death_s"] = seconds_to_hear(users.slice(procs=0))
    print("RESULT " + json.dumps(result), flush=True)
    os._exit(0)  # a system that lost a process may not end by itself


if __name__ == "__main__":
    main()
