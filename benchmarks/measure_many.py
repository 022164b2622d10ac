"""Measures many processes at once, and many rounds of few; of this repository alone.

Prints one line, `RESULT` and a JSON object with a row for each size, and what the program held
after round 50 and after the last.
"""

import argparse
import gc
import json
import os
import time
from pathlib import Path

from monarch.actor import Actor, endpoint, this_host

SIZES = (8, 64, 256)
ROUNDS, SETTLED = 300, 50


class Target(Actor):
    def __init__(self):
        self.count = 0

    @endpoint
    def echo(self, value):
        return value

    @endpoint
    def increase(self):
        self.count += 1

    @endpoint
    def get(self):
        return self.count


def many(size):
    """Return the seconds for the start of `size` processes, a call to all, and a message to all."""
    began = time.perf_counter()
    processes = this_host().spawn_procs(per_host={"procs": size})
    actors = processes.spawn("target", Target)
    actors.echo.call(0).get()
    row = {"processes": size, "spawn_s": time.perf_counter() - began}
    row["call_s"] = repeated(lambda: actors.echo.call(0).get(), 20)
    casts = 200
    began = time.perf_counter()
    for _ in range(casts):
        actors.increase.broadcast()
    counts = set(actors.get.call().get().values())
    row["cast_s"] = (time.perf_counter() - began) / casts
    assert counts == {casts}, f"{counts} messages arrived, not {casts}"
    began = time.perf_counter()
    processes.stop().get()
    row["stop_s"] = time.perf_counter() - began
    return row


def repeated(action, times):
    """Return the median seconds of an action."""
    seconds = []
    for _ in range(times):
        began = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - began)
    return sorted(seconds)[times // 2]


def held():
    """Return what this program holds: descriptors, threads, and resident memory in bytes."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": len(os.listdir("/proc/self/task")),
        "memory_bytes": pages * os.sysconf("SC_PAGE_SIZE"),
    }


def one_round():
    processes = this_host().spawn_procs(per_host={"procs": 4})
    actors = [processes.spawn(name, Target) for name in ("first", "second")]
    for each in actors:
        each.echo.call(0).get()
    processes.stop().get()


def rounds(number, settled):
    """Spawn, call and stop again and again; return what was held when it had settled, and at the end."""
    longest = 0.0
    for done in range(1, number + 1):
        began = time.perf_counter()
        one_round()
        longest = max(longest, time.perf_counter() - began)
        if done == settled:
            then = held()
    return {"rounds": number, "settled_after": settled, "settled": then, "end": held(), "longest_s": longest}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few of both: does it run at all?")
    options = parser.parse_args()
    # The rounds first: what many processes needed at once would be held at their beginning.
    result = {"churn": rounds(4, 2) if options.quick else rounds(ROUNDS, SETTLED)}
    result["sizes"] = [many(size) for size in ((4,) if options.quick else SIZES)]
    print("RESULT " + json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
