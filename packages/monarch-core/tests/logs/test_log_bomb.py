"""Output without measure: nobody stalls, nothing grows, and the count is right."""

from __future__ import annotations

import re
import subprocess

MOST = 200 << 10  # KiB

BOMB = """
def collector():
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        try:
            with open(f"/proc/{pid}/stat") as stat, open(f"/proc/{pid}/cmdline") as words:
                if int(stat.read().rpartition(")")[2].split()[1]) == os.getpid() and "_logs" in words.read():
                    return pid
        except OSError:
            pass

talker = talkers()
talker.run.call_one("print('first')").get()
pid = collector()
talker.run.call_one(SOURCE).get(100)
with open(f"/proc/{pid}/status") as status:
    print("peak", *(line.split()[1] for line in status if line.startswith("VmHWM")))
"""


def bomb(talk, source):
    out, err = talk(BOMB.replace("SOURCE", repr(source)), 110)
    assert err == []
    (peak,) = [int(line.split()[1]) for line in out if line.startswith("peak")]
    assert peak < MOST
    lines = [line.removeprefix("[talker 0] ") for line in out if line.startswith("[talker 0] ")]
    assert lines[0] == "first"
    return lines[1:]


def test_a_line_of_a_gibibyte_is_cut_and_its_size_is_told(talk):
    *_, line = bomb(talk, "for _ in range(1024): sys.stdout.write('x' * (1 << 20))")
    assert re.fullmatch(rf"x{{8192}} \.\.\. \({(1 << 30) - 8192} bytes more\)", line)
    (path,) = talk.folder.glob("*/*.stdout.log")
    assert path.stat().st_size == (1 << 30) + len("first\n")
    path.unlink()


def test_a_million_lines_are_counted(talk):
    lines = bomb(talk, "for i in range(1_000_000): print('step', i)")
    counts = [re.fullmatch(r"(?:(\d+) similar lines, the last: )?step (\d+)", line) for line in lines]
    assert all(counts)
    assert sum(int(match[1] or 1) for match in counts) == 1_000_000
    assert counts[-1][2] == "999999"


def test_lines_that_nobody_takes_do_not_hold_up_their_actor_and_are_counted(talk, tmp_path, until):
    """Each line is of a kind of its own, and the client's standard output is a pipe that is not read."""
    done = tmp_path / "done"
    program = talk.start(
        f"""
talkers().run.call_one(
    "for i in range(200_000): print(''.join(chr(ord('g') + int(c)) for c in str(i)) * 9)"
).get(60)
open({str(done)!r}, "w").close()
sys.stdin.read()
""",
        stdin=subprocess.PIPE,
    )
    with program:
        until(done.exists, 60)
        program.stdin.close()
        lines = program.stdout.read().decode().splitlines() + program.stderr.read().decode().splitlines()
    left_out = [re.match(r"\[monarch\] (\d+) lines not shown", line) for line in lines]
    lost = sum(int(match[1]) for match in left_out if match)
    assert lost > 0
    assert lost + sum(not match for match in left_out) == 200_000
    assert sum(text.count(b"\n") for text in talk.files("*.stdout.log")) == 200_000
