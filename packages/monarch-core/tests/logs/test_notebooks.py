"""In IPython the output of actors belongs to the cell that made them write it."""

from __future__ import annotations

NOTEBOOK = """
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

shell = InteractiveShell.instance()
shell.history_manager.enabled = False

def cell(source):
    with capture_output() as shown:
        result = shell.run_cell(source)
    assert result.success, shown.stdout
    return shown.stdout.splitlines()

shell.push({"talkers": talkers})
first = cell("actors = talkers(2); actors.run.call('print(1)').get(); print('mine')")
second = cell("_ = actors.run.call('print(2)').get()")
print(sorted(first))
print(sorted(second))
"""


def test_each_cell_shows_what_its_actors_wrote_before_the_next_one_runs(talk):
    out, err = talk(NOTEBOOK)
    assert err == []
    assert out == [
        "['[talker 0] 1', '[talker 1] 1', 'mine']",
        "['[talker 0] 2', '[talker 1] 2']",
    ]
