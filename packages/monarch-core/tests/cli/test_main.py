"""The `monarch` command itself: what it costs, and how it fails."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from monarch import __version__
from monarch.cli import main, sessions
from monarch.errors import DebugError


def test_it_says_its_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"monarch, version {__version__}\n"


def test_it_runs_as_a_module():
    command = [sys.executable, "-m", "monarch", "--version"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.endswith(
        f"{__version__}\n"
    )


def test_help_is_no_failure(capsys):
    assert main(["debug", "--help"]) == 0
    assert "attach" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [["nonsense"], ["debug", "nonsense"], ["debug", "list", "--nonsense"], ["debug", "cast", "trainer"]],
    ids=" ".join,
)
def test_wrong_use_has_exit_code_2_and_one_json_document(words, capsys):
    assert main([*words, "--json"]) == 2
    out, err = capsys.readouterr()
    assert json.loads(out)["error"]["code"] == "UsageError"
    assert "Usage:" in err
    assert main(words) == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("words", [["list", "--json"], ["--json"], ["--json", "list"]], ids=" ".join)
def test_a_list_is_one_json_document(words, capsys):
    assert main(["debug", "--client", "1", *words]) == 0
    assert json.loads(capsys.readouterr().out) == {"sessions": []}


def test_an_error_of_monarch_has_its_class_as_code(monkeypatch, capsys):
    def fail(client):
        raise DebugError("it is broken")

    monkeypatch.setattr("monarch.cli.debug.find", fail)
    assert main(["debug", "list", "--json"]) == 1
    out, err = capsys.readouterr()
    assert json.loads(out) == {"error": {"code": "DebugError", "message": "it is broken"}}
    assert err == "monarch: it is broken\n"


def test_a_reader_that_goes_away_is_no_traceback():
    program = "import sys; from monarch.cli import main; sys.exit(main(['debug', '--help']))"
    command = f'{sys.executable} -c "{program}" | true; exit ${{PIPESTATUS[0]}}'
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode in (0, 1), done.stderr) == (True, "")


@pytest.mark.parametrize("command", ["list", "attach"])
def test_it_starts_no_runtime(command):
    program = f"""
import sys
from monarch.cli import main
main(["debug", {command!r}, "--client", "1"])
heavy = ("torch", "numpy", "asyncio", "monarch.actor", "monarch._runtime.process", "monarch._runtime.here")
print(*[name for name in heavy if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30)
    assert done.stdout.strip() == "", done.stderr


class Rank:
    def __init__(self, rank, **coordinates):
        self.rank, self.coordinates = rank, coordinates


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("2", [2]),
        ("0,2:4", [0, 2, 3]),
        ("::2", [0, 2]),
        ("hosts=1", [2, 3]),
        ("gpus=0:1", [0, 2]),
        ("hosts=1,gpus=1", [3]),
        ("ranks(1, hosts=0)", [1]),
        ("other=0", []),
        ("all", [0, 1, 2, 3]),
    ],
)
def test_ranks_are_numbers_slices_and_labels(text, chosen):
    every = [Rank(rank, hosts=rank // 2, gpus=rank % 2) for rank in range(4)]
    assert [each.rank for each in every if sessions.ranks(text)(each)] == chosen


@pytest.mark.parametrize("text", ["x", "1,,2", "a=b", "ranks(", "1:2:0"])
def test_ranks_that_cannot_be_read_are_wrong_use(text, capsys):
    assert main(["debug", "cast", "trainer", text, "c"]) == 2
    assert "ranks are written as" in capsys.readouterr().err
