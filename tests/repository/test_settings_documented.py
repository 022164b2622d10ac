"""The page of settings is the table of the code."""

from __future__ import annotations

from pathlib import Path

from monarch.config import SETTINGS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "settings.md"

KINDS = {int: "number", float: "seconds", bool: "true or false", str: "text"}


def table() -> str:
    rows = [
        f"| `{each.name}` | {KINDS[each.kind]} | `{each.default}` | {each.help} |"
        for each in SETTINGS.values()
    ]
    return "\n".join(["| setting | takes | default | meaning |", "|---|---|---|---|", *rows])


def test_the_page_has_the_table_of_settings():
    assert table() in PAGE.read_text(), f"put this there:\n{table()}"
