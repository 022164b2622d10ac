"""`monarch config`: the settings in force here, and where each comes from."""

from __future__ import annotations

from collections.abc import Sequence

import click

from monarch import config
from monarch.cli.output import print_json, table


@click.command(name="config")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(names: Sequence[str], as_json: bool) -> None:
    """Show settings, their values in this folder, and where these come from.

    All of them without a NAME. A value comes from the environment, else from the project's file
    (monarch.toml, or [tool.monarch] of pyproject.toml), else it is the default.
    """
    chosen = [config.setting(name) for name in names] or list(config.SETTINGS.values())
    rows = [(each, config.get(each.name), config.source_of(each.name)) for each in chosen]
    if as_json:
        print_json(
            {
                "settings": [
                    {
                        "name": each.name,
                        "value": value,
                        "from": source,
                        "type": each.kind.__name__,
                        "default": each.default,
                        "help": each.help,
                    }
                    for each, value, source in rows
                ]
            }
        )
        return
    cells = [(each.name, str(value), source, each.help) for each, value, source in rows]
    for line in table(("NAME", "VALUE", "FROM", "MEANING"), cells):
        click.echo(line)
