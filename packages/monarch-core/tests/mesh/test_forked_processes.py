"""What a forked process has of the program, and what it has not: the same as an executed one."""

from __future__ import annotations

import pytest

# Done before the zygote is forked, so that a process could inherit it.
BEFORE = """
import atexit, asyncio, contextvars, logging, os, random, signal, socket, sys, tempfile, threading, weakref
import multiprocessing.util
"""
PRINT = "import os, sys; print('seen', {}, flush=True)"


@pytest.fixture(params=["fork", "exec"])
def seen(program, request):
    """Run `before` in a program, and return what an expression is in its actor, started either way."""

    def _seen(expression, before="", spawned="", **environment):
        client = program(
            f"{spawned}\nworkers(1).run.call_one({PRINT.format(expression)!r}).get(30)",
            first=BEFORE + before,
            MONARCH_PROC_START_METHOD=request.param,
            **environment,
        )
        found = client.says("seen", 30)
        assert client.finish() == 0
        assert client.errors == ""
        return found

    return _seen


def test_the_environment_is_that_of_the_spawn(seen):
    look = "os.environ.get('NEW'), os.environ.get('OLD'), __import__('subprocess').getoutput('echo $NEW$OLD')"
    before = "os.environ['OLD'] = 'old'"
    assert seen(look, before, "os.environ['NEW'] = 'new'; del os.environ['OLD']") == "new None new"


def test_settings_in_the_environment_are_read_anew(seen):
    look = "__import__('monarch.config').config.get('cleanup_timeout')"
    before = "import monarch.config; monarch.config.get('cleanup_timeout')"
    assert seen(look, before, "os.environ['MONARCH_CLEANUP_TIMEOUT'] = '9'") == "9.0"


def test_settings_that_were_taken_back_do_not_hold(seen):
    look = "__import__('monarch.config').config.get_runtime_config()"
    before = "import monarch.config; monarch.config.configure(cleanup_timeout=9)"
    assert seen(look, before, "from monarch.config import *; clear_runtime_config()") == "{}"


def test_working_directory_mask_and_limits_are_those_of_the_spawn(seen, tmp_path):
    look = "os.getcwd(), oct(os.umask(0)), __import__('resource').getrlimit(4)[0]"
    spawned = f"import resource; os.chdir({str(tmp_path)!r}); os.umask(0o27); "
    spawned += "resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))"
    assert seen(look, "", spawned) == f"{tmp_path} 0o27 0"


def test_open_files_and_sockets_of_the_program_are_not_shared(seen, tmp_path):
    before = f"""
file = open({str(tmp_path / "secret")!r}, "w")
os.set_inheritable(file.fileno(), True)
server = socket.create_server(("127.0.0.1", 0))
"""
    links = "[os.path.realpath(f'/proc/self/fd/{n}') for n in os.listdir('/proc/self/fd')]"
    look = f"any('secret' in link for link in {links}), len({links}) < 40"
    assert seen(look, before) == "False True"


def test_a_port_that_the_program_closed_is_free(program):
    client = program(
        """
server.close()
workers(1).echo.call_one(1).get(20)
socket.create_server(address).close()
say("free")
""",
        first=f"{BEFORE}\nserver = socket.create_server(('127.0.0.1', 0)); address = server.getsockname()",
    )
    assert client.says("free") == ""


def test_what_the_program_does_at_its_end_is_not_done_in_its_processes(program):
    client = program(
        "mesh = crew(2); mesh.spawn('worker', Worker).echo.call(1).get(20); mesh.stop().get(20)",
        first=f"{BEFORE}\natexit.register(lambda: print('end', flush=True))",
    )
    assert client.finish() == 0
    assert client.output == "end\n"


def test_what_an_actor_registers_for_the_end_is_done(program):
    register = "import atexit, weakref; self.end = atexit.register(print, 'end', flush=True); "
    register += "weakref.finalize(self, print, 'last', flush=True)"
    client = program(f"""
mesh = crew(1)
mesh.spawn("worker", Worker).run.call_one({register!r}).get(20)
mesh.stop().get(20)
""")
    assert client.finish() == 0
    assert sorted(line.split()[-1] for line in client.output.splitlines()) == ["end", "last"]


def test_temporary_folders_of_the_program_outlive_its_processes(program):
    client = program(
        """
mesh = crew(1)
mesh.spawn("worker", Worker).run.call_one("import gc; gc.collect()").get(20)
mesh.stop().get(20)
say("there", os.path.isdir(folder.name))
""",
        first=f"{BEFORE}\nfolder = tempfile.TemporaryDirectory()",
    )
    assert client.says("there") == "True"


def test_text_that_waits_to_be_written_is_written_once(program):
    client = program(
        "mesh = crew(2); mesh.spawn('worker', Worker).echo.call(1).get(20); mesh.stop().get(20)",
        first="print('once')",
    )
    assert client.finish() == 0
    assert client.output == "once\n"


def test_classes_of_the_main_module_work(seen):
    assert seen("type(self).__name__, sys.modules['__main__'].__dict__.get('folder')", "folder = 1") == (
        "Worker None"
    )


def test_signals_are_handled_as_in_a_new_interpreter(seen):
    look = "[__import__('signal').getsignal(number) for number in (1, 10, 15, 17)]"
    look = f"{{int(handler) for handler in {look}}}, __import__('signal').getsignal(2) is print"
    before = "signal.signal(10, print); signal.signal(15, print); signal.signal(2, print)"
    assert seen(look, before) == "{0} False"


def test_context_variables_are_empty_and_no_loop_runs(seen):
    names = "[variable.name for variable in __import__('contextvars').copy_context()]"
    look = f"'of_the_program' in {names}, __import__('asyncio')._get_running_loop()"
    assert seen(look, "contextvars.ContextVar('of_the_program').set(1)") == "False None"


def test_standard_output_is_that_of_the_process(seen):
    assert seen("sys.stdout.fileno(), sys.stdin.read()", "import io; sys.stdin = io.StringIO('text')") == "1"


def test_handlers_for_logs_of_the_program_are_its_own(seen, tmp_path):
    log = tmp_path / "log"
    look = "__import__('logging').getLogger().handlers"
    assert seen(look, f"logging.basicConfig(filename={str(log)!r})") == "[]"


@pytest.mark.parametrize("generator", ["random.random()", "numpy.random.rand()"])
def test_random_numbers_differ_in_each_process(program, generator):
    client = program(
        f"""
class Random(Actor):
    @endpoint
    def draw(self):
        return {generator}
say("different", len({{*crew(3).spawn("random", Random).draw.call().get(30).values(), {generator}}}))
""",
        first="import random, numpy.random; numpy.random.seed(0); random.seed(0)",
    )
    assert client.says("different", 30) == "4"


def test_every_process_draws_the_same_from_torch_as_a_new_interpreter(program):
    client = program(
        """
class Random(Actor):
    @endpoint
    def draw(self):
        import torch
        return torch.initial_seed()
say("seeds", *{*crew(2).spawn("random", Random).draw.call().get(60).values(), torch.initial_seed()})
""",
        first="import torch",
    )
    assert len(client.says("seeds", 60).split()) == 1


def test_a_module_that_was_half_imported_is_imported_in_full(program, tmp_path):
    (tmp_path / "half.py").write_text("from monarch.actor import Actor\nANSWER = 42\n")
    client = program(
        "workers(1).run.call_one(\"import half; print('answer', half.ANSWER, flush=True)\").get(20)",
        first="import half",
    )
    assert client.says("answer") == "42"


def test_a_module_whose_loader_marks_nothing_is_imported_in_full_too(program, tmp_path):
    """As those of test runners and of plugin systems."""
    (tmp_path / "half.py").write_text("from monarch.actor import Actor\nANSWER = 42\n")
    client = program(
        "workers(1).run.call_one(\"import half; print('answer', half.ANSWER, flush=True)\").get(20)",
        first="""
import importlib.util, os, sys
spec = importlib.util.spec_from_file_location("half", os.path.join(os.path.dirname(__file__), "half.py"))
sys.modules["half"] = half = importlib.util.module_from_spec(spec)
spec.loader.exec_module(half)
""",
    )
    assert client.says("answer") == "42"


def test_actors_may_import_on_threads_of_their_own(program):
    client = program(
        """
load = '''
def load():
    import torch
    self.found = torch.ones(1)
thread = threading.Thread(target=load)
thread.start()
thread.join(10)
print("alive", thread.is_alive(), flush=True)
'''
workers(1).run.call_one(load).get(30)
""",
        first="import monarch.actor, torch",
    )
    assert client.says("alive", 60) == "False"


def test_the_zygote_of_a_program_that_spawns_nothing_ends_with_it(program, until):
    client = program("say('ready'); wait_for_ever()")
    client.says("ready")
    assert len(client.processes()) == 2
    client.send(9)
    client.finish()
    until(lambda: not client.processes(), 2)


def test_a_pipe_from_a_program_ends_with_it(script, tmp_path):
    done = script("import os, monarch.actor; print('text', flush=True); os._exit(0)", seconds=10)
    assert (done.stdout, done.stderr) == ("text\n", "")


def test_an_import_that_fails_shows_the_same_lines_as_ever(script, tmp_path):
    (tmp_path / "broken.py").write_text("1 / 0")
    done = script("import monarch.actor\nimport broken")
    assert done.stderr.count("File ") == 2
    assert "monarch" not in done.stderr.replace("import monarch.actor", "")


def test_sources_of_watched_modules_can_be_looked_up(script):
    done = script("""
import monarch.actor, colorsys, importlib, inspect, pickle
assert "rgb_to_hsv" in inspect.getsource(colorsys)
assert "exec_module" not in vars(colorsys.__loader__)
pickle.dumps(colorsys.__loader__)
importlib.reload(colorsys)
""")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("method", ["fork", "exec"])
def test_a_program_with_many_files_and_a_large_environment_spawns(program, method):
    client = program(
        "workers(2).echo.call(1).get(20)",
        first="""
import os, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
files = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
os.environ.update({f"VARIABLE_{number}": "x" * 10_000 for number in range(30)})
""",
        MONARCH_PROC_START_METHOD=method,
    )
    assert client.finish() == 0


@pytest.mark.parametrize("method", ["fork", "exec"])
@pytest.mark.parametrize("numbers", [(0,), (1, 2), (0, 1, 2)])
def test_a_program_whose_standard_streams_are_closed_spawns(program, method, numbers):
    client = program(
        "workers(2).echo.call(1).get(20); os._exit(7)",
        first=f"import os\nfor number in {numbers}: os.close(number)",
        MONARCH_PROC_START_METHOD=method,
    )
    assert client.finish() == 7


def test_a_program_with_a_descriptor_above_its_limit_spawns(program):
    client = program(
        "say('echo', workers(1).echo.call_one(3).get(20))",
        first="import os, resource; os.dup2(0, 300); resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))",
    )
    assert client.says("echo") == "3"
