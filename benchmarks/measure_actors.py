"""Measures actors over the public API alone, so it runs unchanged on every system that has it.

Prints one line, `RESULT` and a JSON object: seconds, or a rate per second, for each figure.
`actors.py` beside it runs this several times and compares.
"""

import argparse
import json
import time

began = time.perf_counter()
import monarch.actor  # noqa: E402  # its import is one of the figures
from monarch.actor import Actor, endpoint, this_host  # noqa: E402

IMPORT = time.perf_counter() - began


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


def median_seconds(action, times):
    """Return the median time of an action that is repeated."""
    seconds = []
    for _ in range(times):
        began = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - began)
    return sorted(seconds)[times // 2]


def spawn(size):
    """Return processes, an actor on each, and the seconds until all of them have answered."""
    began = time.perf_counter()
    processes = this_host().spawn_procs(per_host={"procs": size})
    actors = processes.spawn("target", Target)
    actors.echo.call(0).get()
    return processes, actors, time.perf_counter() - began


def casts(one, number):
    """Send one way; the actor has handled all of them when it answers the question that follows."""
    began = time.perf_counter()
    for _ in range(number):
        one.increase.broadcast()
    handled = one.get.call_one().get()
    seconds = time.perf_counter() - began
    assert handled == number, f"{handled} of {number} messages arrived"
    return number / seconds


def pipelined(one, number):
    """Call without waiting, then collect all results."""
    began = time.perf_counter()
    futures = [one.echo.call_one(index) for index in range(number)]
    results = [future.get() for future in futures]
    seconds = time.perf_counter() - began
    assert results == list(range(number)), "results are not those of the calls"
    return number / seconds


def echo(one, mebibytes, times):
    """Return the GiB a second, there and back, of an array that an actor returns."""
    import numpy

    array = numpy.random.default_rng(0).integers(0, 255, mebibytes << 20, dtype=numpy.uint8)
    assert (one.echo.call_one(array).get() == array).all(), "the array has changed"
    began = time.perf_counter()
    for _ in range(times):
        one.echo.call_one(array).get()
    return 2 * mebibytes * times / 1024 / (time.perf_counter() - began)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument(
        "--quick", action="store_true", help="a tenth of the repetitions: does it run at all?"
    )
    options = parser.parse_args()
    share = 10 if options.quick else 1

    result = {"monarch": monarch.actor.__file__, "import_s": IMPORT}
    processes, actors, result["spawn_s"] = spawn(options.processes)
    median_seconds(lambda: actors.echo.call(0).get(), 50 // share)
    result["call_s"] = median_seconds(lambda: actors.echo.call(0).get(), 300 // share)
    processes.stop().get()

    _, actors, _ = spawn(1)
    one = actors.slice(procs=0)
    median_seconds(lambda: one.echo.call_one(0).get(), 200 // share)
    result["call_one_s"] = median_seconds(lambda: one.echo.call_one(0).get(), 2000 // share)
    result["casts_per_s"] = casts(one, 10_000 // share)
    result["pipelined_per_s"] = pipelined(one, 5_000 // share)
    result["echo_1_gib_per_s"] = echo(one, 1, 64 // share)
    result["echo_64_gib_per_s"] = echo(one, 64, 3)
    print("RESULT " + json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
