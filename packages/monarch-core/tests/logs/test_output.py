"""What actors write reaches the client, with the name of who wrote it."""

from __future__ import annotations

import os
import pty
import re
import signal
import sys

import pytest

from monarch.actor import Actor, BootstrapCommand, default_bootstrap_cmd, endpoint, this_host


class Talker(Actor):
    @endpoint
    def run(self, source):
        exec(source)

    @endpoint
    def ask(self, source):
        return eval(source)


@pytest.fixture
def talker(procs):
    """The only actor of its process."""
    actor = procs.slice(gpus=0).spawn("talker", Talker)
    yield actor
    actor.stop().get(20)


def test_each_stream_reaches_its_like(talk):
    out, err = talk(
        "talkers().run.call('print(1); print(2, file=sys.stderr); sys.stdout.write(\"3\\\\n\")').get()"
    )
    assert out == ["[talker 0] 1", "[talker 0] 3"]
    assert err == ["[talker 0] 2"]


@pytest.mark.parametrize(
    "write",
    [
        pytest.param("os.write(1, b'word\\n')", id="os.write"),
        pytest.param("subprocess.run(['echo', 'word'])", id="subprocess"),
        pytest.param("threading.Thread(target=print, args=('word',)).start()", id="thread"),
        pytest.param("sys.__stdout__.write('word\\n')", id="original-stream"),
        pytest.param("sys.stdout.buffer.write(b'word\\n'); sys.stdout.flush()", id="buffer"),
        pytest.param(
            "pid = os.fork()\nif not pid: print('word'); os._exit(0)\nos.waitpid(pid, 0)", id="fork"
        ),
    ],
)
def test_what_is_written_past_print_is_named_after_the_only_actor(talker, seen, write):
    talker.run.call_one("import os, subprocess, sys, threading\n" + write).get(20)
    seen("[talker 0] word\n")


def test_actors_write_any_character_whatever_the_locale(talk, monkeypatch):
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    source = "print('h\\u00e9'); sys.__stderr__.write('\\u6f22\\n')"
    out, err = talk(f"""
sys.stdout.reconfigure(encoding="utf-8")
talkers().run.call_one({source!r}).get()
""")
    assert out == ["[talker 0] h\u00e9"]
    assert err == [r"[talker 0] \u6f22"]  # the program's own stream takes no more


def test_all_output_is_shown_when_processes_are_stopped(talk):
    out, _ = talk("""
processes = this_host().spawn_procs({"gpus": 3}, name="crew")
processes.spawn("talker", Talker).run.call("for n in range(20): print(n)").get()
processes.stop().get()
print("stopped")
""")
    assert out[-1] == "stopped"
    assert "50 similar lines" in out[-2]


def test_two_actors_of_one_process_are_told_apart(talker, procs, seen):
    other = procs.slice(gpus=0).spawn("other", Talker)
    talker.run.call_one("print('one')").get(20)
    other.run.call_one("print('two')").get(20)
    other.run.call_one("import os; os.write(1, b'three\\n')").get(20)
    other.stop().get(20)
    seen("[talker 0] one\n")
    seen("[other 0] two\n")
    seen("[procs 0] three\n")


def test_what_remains_of_two_actors_is_the_only_one_again(talker, procs, seen):
    other = procs.slice(gpus=0).spawn("other", Talker)
    other.run.call_one("pass").get(20)
    other.stop().get(20)
    talker.run.call_one("import os; os.write(1, b'mine\\n')").get(20)
    seen("[talker 0] mine\n")


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("sys.stdout.fileno(), sys.stderr.fileno()", (1, 2)),
        ("sys.stdout.isatty(), sys.stdout.writable()", (False, True)),
        ("sys.stdout.encoding, sys.stderr.errors", ("utf-8", "backslashreplace")),
        ("sys.stdout.write('1234\\n')", 5),
    ],
)
def test_the_streams_of_an_actor_are_ordinary_streams(talker, expression, value):
    assert talker.ask.call_one(expression).get(20) == value


def test_an_actor_can_redirect_its_output(talker, seen):
    talker.run.call_one("""
import contextlib, io
with contextlib.redirect_stdout(io.StringIO()) as text:
    print("inside")
print(text.getvalue().upper())
""").get(20)
    assert "inside" not in seen("[talker 0] INSIDE\n")


@pytest.mark.parametrize("close", ["sys.stdout.close()", "os.close(1)", "sys.stdout = None"])
def test_an_actor_may_close_its_output(seen, close, capsys):
    mesh = this_host().spawn_procs()
    actor = mesh.spawn("talker", Talker)
    actor.run.call_one(f"import os, sys; {close}; print('heard', file=sys.stderr)").get(20)
    seen("[talker 0] heard\n", "stderr")
    mesh.spawn("second", Talker).run.call_one("pass").get(20)
    mesh.stop().get(8)  # it is not killed, which would be after ten seconds
    assert "Traceback" not in capsys.readouterr().err


def test_marks_stay_out_of_a_file_that_a_bootstrap_command_writes(tmp_path, until):
    script = tmp_path / "python"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} "$@" > {tmp_path}/own.log\n')
    script.chmod(0o755)
    command = BootstrapCommand(str(script), args=default_bootstrap_cmd().args)
    mesh = this_host().spawn_procs(bootstrap_command=command)
    actors = [mesh.spawn(name, Talker) for name in ("a", "b")]
    for actor in actors:
        actor.run.call_one("print('word')").get(20)
    mesh.stop().get(20)
    assert (tmp_path / "own.log").read_text() == "word\nword\n"


def test_the_first_line_of_a_kind_is_shown_at_once_and_the_rest_is_counted_exactly(talk):
    out, _ = talk("talkers(8).run.call('for i in range(1000): print(\"step\", i)').get()")
    counts = [
        re.fullmatch(r"\[talker [\d,-]+\] (?:(\d+) similar lines, the last: )?step \d+", line) for line in out
    ]
    assert all(counts)
    assert sum(int(match[1] or 1) for match in counts) == 8000
    assert len(out) < 50
    assert out[0].endswith("] step 0")
    lines = b"".join(b"step %d\n" % number for number in range(1000))
    assert talk.files("crew-*.stdout.log") == [lines] * 8


def test_actors_that_write_nothing_have_no_files(talk):
    assert talk("talkers().run.call('pass').get()") == ([], [])
    assert talk.files() == []


def test_a_process_that_ends_in_the_middle_of_a_line_shows_what_there_is(talk):
    out, _ = talk("""
monarch.actor.unhandled_fault_hook = lambda failure: None
talkers().run.call("sys.stdout.write('no end'); sys.stdout.flush(); os.kill(os.getpid(), 9)").exception()
""")
    assert out == ["[talker 0] no end"]
    assert talk.files("*.stdout.log") == [b"no end"]


def test_a_line_without_an_end_is_shown_after_a_while_and_whole_when_it_ends(talker, seen):
    talker.run.call_one("print('working... ', end='', flush=True)").get(20)
    seen("[talker 0] working... \n")
    talker.run.call_one("print('done')").get(20)
    assert seen("done\n").endswith("[talker 0] working... done\n")


BAR = """
for i in range(101):
    print(f"\\r{i}%|{'#' * (i // 10):10}|", end="", file=sys.stderr, flush=True)
    time.sleep(0.01)
print(file=sys.stderr)
"""


def test_a_progress_bar_is_one_line_and_now_and_then_a_state(talk):
    _, err = talk(f"talkers(3).run.call({BAR!r}).get()")
    state, last, others = err
    assert re.fullmatch(r"\[talker \d\] \d+%\|[ #]{10}\|", state)
    assert re.fullmatch(r"\[talker \d\] 100%\|#{10}\|", last)
    assert re.fullmatch(r"\[talker \d[,-]\d\] 2 similar lines, the last: 100%\|#{10}\|", others)


def test_a_progress_bar_is_updated_in_place_on_a_terminal(talk):
    ours, theirs = pty.openpty()
    with talk.start(f"talkers().run.call({BAR!r}).get()", stdout=theirs, stderr=theirs) as program:
        os.close(theirs)
        shown = b""
        while True:
            try:
                shown += os.read(ours, 65536)
            except OSError:  # all others have closed it
                break
    os.close(ours)
    assert program.returncode == 0
    *states, last, rest = re.split(rb"\r\x1b\[K", shown)
    assert states, shown
    assert all(re.fullmatch(rb"\[talker 0\] \d+%\|[# ]{10}\|\r", state) for state in [*states[1:], last][:-1])
    assert rest == b"[talker 0] 100%|##########|\r\n"


def test_noise_is_kept_as_it_is_and_shown_as_text(talk):
    out, _ = talk("talkers().run.call('os.write(1, bytes(range(256)) * 100)').get()")
    assert out
    assert talk.files("*.stdout.log") == [bytes(range(256)) * 100]


def test_what_was_written_before_the_client_was_killed_is_in_the_files(talk, until):
    program = talk.start(
        """
talkers().run.call("print('word')").get()
sys.stdout.write("ready\\n")
sys.stdout.flush()
time.sleep(60)
"""
    )
    with program:
        lines = iter(program.stdout.readline, b"")
        assert "ready\n" in [next(lines).decode() for _ in range(2)]
        program.send_signal(signal.SIGKILL)
    until(lambda: talk.files("*.stdout.log") == [b"word\n"])
