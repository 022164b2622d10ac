"""Measures messages between actors, and compares with torchmonarch where that is asked for.

    python benchmarks/actors.py                          this repository alone
    python benchmarks/actors.py --against torchmonarch   both in turn, with ratios

Every run of a `measure_*.py` is a process of its own with a time limit. The systems take turns,
so that what else the machine does hits both; at the end this repository alone shows what many
processes cost. A run that fails is reported and makes the exit code 1; a ratio below the required one
is shown and does not.
"""

import argparse
import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
COMPARED = ("measure_actors.py", "measure_starts.py")
PEER = "torchmonarch"
PEER_PACKAGES = ("torchmonarch==0.7.0", "torch==2.13.0", "numpy>=2")
OURS = "this"
BEGIN, END = "<!-- benchmarks/actors.py: begin -->", "<!-- benchmarks/actors.py: end -->"


@dataclass(frozen=True)
class Figure:
    """One measure: `factor` turns it into `unit`, and `required` is how many times better we have to be."""

    key: str
    title: str
    unit: str
    factor: float = 1
    lower_is_better: bool = False
    required: float | None = None


FIGURES = (
    Figure("call_one_s", "`call_one`, round trip, p50", "us", 1e6, lower_is_better=True, required=5),
    Figure("call_s", "`call` on 8 processes, p50", "us", 1e6, lower_is_better=True, required=4),
    Figure("casts_per_s", "one-way messages to one actor", "1000/s", 1e-3, required=5),
    Figure("pipelined_per_s", "pipelined `call_one`", "1000/s", 1e-3, required=6),
    Figure("echo_64_gib_per_s", "echo of a 64 MiB array", "GiB/s", required=6),
    Figure("echo_1_gib_per_s", "echo of a 1 MiB array", "GiB/s"),
    Figure("spawn_s", "8 processes, an actor on each, first call", "s", lower_is_better=True, required=2),
    Figure("torch_spawn_s", "the same, torch used in each", "s", lower_is_better=True, required=8),
    Figure(
        "torch_memory_bytes", "memory (PSS) of each of these", "MB", 1e-6, lower_is_better=True, required=3
    ),
    Figure(
        "death_s",
        "SIGKILL of a process to the error of its call",
        "ms",
        1e3,
        lower_is_better=True,
        required=30,
    ),
    Figure("import_s", "import of `monarch.actor`", "s", lower_is_better=True),
)


@dataclass
class System:
    """Something to measure: the results of its runs, and what went wrong in others."""

    name: str
    python: str
    runs: list[dict]
    failures: list[str]

    def values(self, figure: Figure) -> list[float]:
        return [run[figure.key] * figure.factor for run in self.runs]


def main() -> None:
    options = parse_arguments()
    systems = [System(OURS, sys.executable, [], [])]
    if options.against:
        systems.append(System(PEER, peer_python(), [], []))
    machine = f"{os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}"
    say(f"{machine}; load before: {os.getloadavg()[0]:.1f}")
    for number in range(1, options.rounds + 1):
        for system in systems:
            problem = measure(system, options)
            say(f"round {number} of {options.rounds}, {system.name}: {problem or 'done'}")
    many, problem = run(systems[0], "measure_many.py", options)
    say(f"many processes: {problem or 'done'}")
    if problem:
        systems[0].failures.append(problem)
    table = table_of(systems, f"{machine}, {options.rounds} run(s) of each")
    if many:
        table += "\n\n" + tables_of_many(many)
    print(table)
    if options.json:
        options.json.write_text(json.dumps({**report(systems, machine), "many": many}, indent=2) + "\n")
    failed = any(system.failures for system in systems)
    if options.markdown and not failed:
        replace_table(options.markdown, table)
    elif options.markdown:
        say(f"{options.markdown} is left as it was, since some runs failed")
    sys.exit(1 if failed else 0)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--against", choices=[PEER], help="the system to compare with")
    parser.add_argument("--rounds", type=int, default=5, help="runs of each system (5)")
    parser.add_argument("--limit", type=float, default=180, metavar="SECONDS", help="for one run (180)")
    parser.add_argument("--quick", action="store_true", help="a tenth of the repetitions; no figures to keep")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all values")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="replace the table between the markers")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error(f"--rounds has to be at least 1, not {options.rounds}")
    if options.markdown and not (options.markdown.is_file() and BEGIN in options.markdown.read_text()):
        parser.error(f"--markdown: {options.markdown} has no line {BEGIN}")
    return options


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# ---- the peer


def peer_python() -> str:
    """Return the interpreter of an environment that has torchmonarch; make it if it is not there."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "monarch-dev" / "bench"
    folder = cache / f"{PEER_PACKAGES[0].replace('==', '-')}-py{sys.version_info[0]}.{sys.version_info[1]}"
    python, complete = folder / "bin" / "python", folder / "complete"
    if complete.exists():
        return str(python)
    say(f"installing {', '.join(PEER_PACKAGES)} into {folder}")
    shutil.rmtree(folder, ignore_errors=True)
    pip = [sys.executable, "-m", "pip"]
    if subprocess.run([*pip, "--version"], capture_output=True, check=False).returncode:
        if not (found := shutil.which("pip")):
            sys.exit("no pip in this environment and none on PATH; install pip")
        pip = [found]
    # Without pip inside: not every system can put it there, and the one outside installs into it.
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    flags = ["--disable-pip-version-check", "--python", str(python)]
    if subprocess.run([*pip, *flags, "install", "--quiet", *PEER_PACKAGES], check=False).returncode:
        sys.exit(f"{PEER} could not be installed; see pip's message above")
    complete.touch()
    return str(python)


# ---- one run


def measure(system: System, options: argparse.Namespace) -> str:
    """Run the measuring scripts once; return what went wrong, or nothing."""
    results: dict = {}
    for script in COMPARED:
        result, problem = run(system, script, options)
        if not problem:
            in_peer = Path(system.python).parents[1] in Path(result["monarch"]).parents
            if system.name == PEER and not in_peer:
                problem = f"measured the wrong system: {result['monarch']}"
        if problem:
            system.failures.append(problem)
            return f"FAILED: {problem}"
        results |= result
    system.runs.append(results)
    return ""


def run(system: System, script: str, options: argparse.Namespace) -> tuple[dict, str]:
    """Run one measuring script; return its result, and what went wrong."""
    # A path for our packages must not reach the other system, which has modules of the same name.
    env = {name: value for name, value in os.environ.items() if system.name == OURS or name != "PYTHONPATH"}
    command = [system.python, str(HERE / script), *(["--quick"] if options.quick else [])]
    process = subprocess.Popen(
        command,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=options.limit)
        problem = f"exit code {process.returncode}" if process.returncode else ""
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, errors = process.communicate()
        problem = f"no result within {options.limit:g} s"
    except BaseException:  # Ctrl-C does not reach another session
        os.killpg(process.pid, signal.SIGKILL)
        raise
    lines = [line for line in output.splitlines() if line.startswith("RESULT ")]
    if not problem and not lines:
        problem = "no result"
    if problem:
        return {}, f"{script}: {problem}\n{errors[-2000:]}".rstrip()
    return json.loads(lines[-1].removeprefix("RESULT ")), ""


# ---- the table


def ratio(figure: Figure, ours: System, peer: System) -> float:
    """Return how many times better our median is."""
    mine, theirs = statistics.median(ours.values(figure)), statistics.median(peer.values(figure))
    return theirs / mine if figure.lower_is_better else mine / theirs


def shown(values: list[float]) -> str:
    if not values:
        return "no result"
    return f"{number(statistics.median(values))} ({number(min(values))}-{number(max(values))})"


def number(value: float) -> str:
    """Show three digits that count, never as a power of ten."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def table_of(systems: list[System], how: str) -> str:
    """Return the results as a table in Markdown."""
    ours, peer = systems[0], systems[1] if len(systems) > 1 else None
    head = ["figure", "unit", *(system.name for system in systems)]
    rows = []
    for figure in FIGURES:
        row = [figure.title, figure.unit, *(shown(system.values(figure)) for system in systems)]
        if peer:
            row += compared(figure, ours, peer)
        rows.append(row)
    if peer:
        head += ["times better", "required", "met"]
    table = aligned(head, rows)
    failures = [
        f"{len(system.failures)} run(s) of {system.name} failed." for system in systems if system.failures
    ]
    note = f"Median (least-greatest) on {how}. Figures are comparable within one run of the benchmark only."
    return "\n\n".join([table, " ".join([note, *failures])])


def aligned(head: list[str], rows: list[list[str]]) -> str:
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    lines = [head, ["-" * width for width in widths], *rows]
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths)) + " |" for line in lines
    )


def tables_of_many(many: dict) -> str:
    """Return what many processes cost, and what is held after many rounds, as tables in Markdown."""
    sizes = [
        [
            str(row["processes"]),
            *(number(row[key]) for key in ("spawn_s", "stop_s")),
            *(number(row[key] * 1e3) for key in ("call_s", "cast_s")),
        ]
        for row in many["sizes"]
    ]
    churn = many["churn"]
    held = [
        [name, str(churn["settled"][name]), str(churn["end"][name])]
        for name in ("descriptors", "threads", "memory_bytes")
    ]
    last = f"round {churn['rounds']}"
    settled = f"round {churn['settled_after']}"
    story = (
        "What a program holds that spawns 4 processes with 8 actors, calls them and stops them, again and "
        f"again; the longest round took {number(churn['longest_s'])} s:"
    )
    return "\n\n".join(
        [
            "Many processes of this repository, an actor on each, in one run:",
            aligned(["processes", "spawn and first call, s", "stop, s", "call, ms", "cast, ms"], sizes),
            story,
            aligned(["", settled, last], held),
        ]
    )


def compared(figure: Figure, ours: System, peer: System) -> list[str]:
    required = f"{figure.required:g}" if figure.required else ""
    if not (ours.runs and peer.runs):
        return ["", required, "no" if required else ""]
    times = ratio(figure, ours, peer)
    met = "" if figure.required is None else ("yes" if times >= figure.required else "no")
    return [f"{times:.1f}", required, met]


def report(systems: list[System], machine: str) -> dict:
    """Return everything that was measured, as JSON."""
    peer = systems[1] if len(systems) > 1 else None
    comparable = peer is not None and bool(systems[0].runs and peer.runs)
    return {
        "machine": machine,
        "systems": {system.name: {"runs": system.runs, "failures": system.failures} for system in systems},
        "figures": [
            {
                "key": figure.key,
                "unit": figure.unit,
                "medians": {s.name: statistics.median(s.values(figure)) for s in systems if s.runs},
                "ratio": ratio(figure, systems[0], peer) if comparable and peer else None,
                "required": figure.required,
            }
            for figure in FIGURES
        ],
    }


def replace_table(page: Path, table: str) -> None:
    """Put the table between the markers of a page."""
    before, rest = page.read_text().split(BEGIN, 1)
    _, after = rest.split(END, 1)
    page.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{after}")


if __name__ == "__main__":
    main()
