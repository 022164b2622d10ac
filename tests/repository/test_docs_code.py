"""The code in README and documentation runs.

All ```python blocks of a page are one script, in their order; a line `<!-- new script -->` before a
block starts another. Each script runs in a folder and a process of its own.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    path for where in ("*.md", "docs/**/*.md", "packages/*/README.md") for path in ROOT.glob(where)
)
DEADLINE = 90
NEW_SCRIPT = "<!-- new script -->"
# Code may stand in a list or a tab, so the fence may be indented; the block then is too.
_BLOCK = r"^([ \t]*)```python[^\n]*\n(.*?)^[ \t]*```[ \t]*$"
_PIECES = re.compile(rf"{_BLOCK}|^({NEW_SCRIPT})$", re.MULTILINE | re.DOTALL)


def scripts_of(text: str) -> list[tuple[int, str]]:
    """Return the scripts of a page, each with its first line, padded so that line numbers agree."""
    scripts: list[tuple[int, str]] = []
    ongoing = False
    for piece in _PIECES.finditer(text):
        indent, code, new_script = piece.groups()
        if new_script:
            ongoing = False
            continue
        line = text.count("\n", 0, piece.start()) + 1
        code = re.sub(rf"^{indent}", "", code, flags=re.MULTILINE)
        first, script = scripts.pop() if ongoing else (line, "")
        scripts.append((first, script + "\n" * (line - script.count("\n")) + code))
        ongoing = True
    return scripts


SCRIPTS = [
    pytest.param(page, code, id=f"{page.relative_to(ROOT)}:{line}")
    for page in PAGES
    for line, code in scripts_of(page.read_text())
]


@pytest.mark.timeout(DEADLINE + 30)
@pytest.mark.parametrize(("page", "code"), SCRIPTS)
def test_the_code_of_a_page_runs(page, code, tmp_path):
    script = tmp_path / f"{page.stem}.py"
    script.write_text(code)
    command = [sys.executable, str(script)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=DEADLINE)
    assert done.returncode == 0, f"{page} (line numbers are those of the page)\n{done.stdout}{done.stderr}"


PAGE = f"""
```python
a = 1
```
* then
  ```python title="x"
  b = a
  ```
```text
no code
```
{NEW_SCRIPT}
```python
c = 3
```
"""


def test_blocks_continue_each_other_until_a_new_script():
    assert scripts_of(PAGE) == [(2, "\n\na = 1\n\n\n\nb = a\n"), (13, "\n" * 13 + "c = 3\n")]
