"""Which way processes are started, and that every way leads to working processes."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

LOGGED = "import logging; logging.basicConfig(level=logging.INFO)\n"
FORKED, CLEAN, EXECUTED = "forked from the program", "forked from a clean interpreter", "executed"


@pytest.fixture
def path(program):
    """Run a program that says which modules its processes have before they import any, and how they began."""

    def _path(before="", after="", **environment):
        client = program(
            f"""
{after}
class Look(Actor):
    def __init__(self):
        self.had = "torch" in sys.modules
    @endpoint
    def multiply(self):
        import torch
        return self.had, float((torch.ones(512, 512) @ torch.ones(512, 512)).sum())

answers = crew(2).spawn("look", Look).multiply.call().get(60)
say("had", *{{had for had, product in answers.values() if product == 512.0**3}})
""",
            first=LOGGED + before,
            **environment,
        )
        had = client.says("had", 60)
        assert client.finish() == 0
        [how] = [line for line in client.errors.splitlines() if "processes are" in line]
        return had == "True", how

    return _path


def test_what_was_imported_before_is_shared(path):
    had, how = path(before="import torch")
    assert had
    assert FORKED in how


def test_what_is_imported_after_is_shared(path):
    had, how = path(after="import torch")
    assert had
    assert FORKED in how


def test_what_a_module_of_the_program_imports_is_shared(path, tmp_path):
    (tmp_path / "model.py").write_text("from monarch.actor import Actor\nimport torch")
    had, how = path(before="from model import Actor")
    assert had
    assert FORKED in how


def test_what_is_imported_when_the_program_has_threads_is_shared(path):
    had, how = path(after="this_host().initialized.get(20); import torch")
    assert had
    assert FORKED in how


def test_a_program_with_threads_is_not_forked(path):
    thread = "import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
    had, how = path(before=thread + "import torch")
    assert had
    assert CLEAN in how
    assert "several threads" in how


def test_a_program_whose_forks_would_hang_is_not_forked(path):
    had, how = path(before="import torch; torch.ones(512, 512) @ torch.ones(512, 512)")
    assert had
    assert CLEAN in how
    assert "did not end in 1.0 s" in how


def test_nothing_is_forked_where_the_setting_says_so(path):
    had, how = path(before="import torch", MONARCH_PROC_START_METHOD="exec")
    assert not had
    assert EXECUTED in how
    assert "proc_start_method" in how


def test_the_setting_holds_for_the_next_processes(program):
    client = program("""
from monarch.config import configured
look = "print('forked', open('/proc/self/cmdline').read().count('program0.py'), flush=True)"
with configured(proc_start_method="exec"):
    workers(1).run.call_one(look).get()
workers(1).run.call_one(look.replace("forked", "again")).get()
""")
    assert client.says("forked") == "0"
    assert client.says("again") == "1"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_processes_have_the_groups_that_the_program_has_now(program):
    client = program(
        "workers(1).run.call_one(\"print('groups', *os.getgroups(), flush=True)\").get(20)",
        first="import monarch.actor, os; os.setgroups([4321])",
    )
    assert client.says("groups") == "4321"


def test_a_fork_of_the_program_has_a_keeper_of_its_own(program):
    client = program("""
child = os.fork()
if not child:
    say("child", workers(1).echo.call_one(1).get(20))
    sys.exit(0)
os.waitpid(child, 0)
say("parent", workers(1).echo.call_one(2).get(20))
""")
    assert client.says("child") == "1"
    assert client.says("parent") == "2"


def test_a_keeper_that_is_killed_takes_its_processes_along_and_is_replaced(program):
    client = program("""
actors = workers(2)
actors.slice(procs=0).run.call_one("print('keeper', os.getppid(), flush=True)").get()
pending = actors.run.call("threading.Event().wait()")
say("pending")
try:
    pending.get(20)
except ProcessDied as error:
    say("died", error)
say("again", workers(1).echo.call_one("works").get(20))
""")
    client.says("pending")
    os.kill(int(client.says("keeper")), signal.SIGKILL)
    assert "is gone" in client.says("died")
    assert client.says("again") == "works"


def test_sixty_four_processes_start(program):
    client = program("""say("sum", sum(workers(64).echo.call(1).get(60).values()))""")
    assert client.says("sum", 60) == "64"
    assert client.finish() == 0


def test_a_clean_keeper_that_imports_monarch_has_no_zygote_of_its_own(program, tmp_path):
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "uses_monarch.py").write_text("import monarch.actor")
    client = program(
        "say('up', workers(1).echo.call_one(1).get(20)); wait_for_ever()",
        first=f"""
import sys, threading
sys.path.append({str(folder)!r})
threading.Thread(target=threading.Event().wait, daemon=True).start()
import uses_monarch
""",
    )
    client.says("up")
    names = [Path(f"/proc/{pid}/comm").read_text().strip() for pid in client.processes()]
    assert names.count("monarch-zygote") == 1
