"""`monarch plugins`: what is plugged in here."""

from __future__ import annotations

import click

from monarch import plugins
from monarch.cli.output import print_json, table
from monarch.hookspecs import API_VERSION


@click.command(name="plugins")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(as_json: bool) -> None:
    """Show the installed plugins, the interface each speaks, and what it offers.

    A plugin for another version of the interface is named with the remedy.
    """
    found, speaks, left_out = plugins.installed(), plugins.interfaces(), plugins.left_out()
    if as_json:
        print_json(
            {
                "interface": _text(API_VERSION),
                "plugins": [
                    {
                        "distribution": info.distribution,
                        "version": info.version,
                        "interface": _text(speaks[info.distribution]),
                        "offers": list(info.offers),
                    }
                    for info in found
                ],
                "left_out": [
                    {
                        "plugin": error.plugin,
                        "distribution": error.distribution,
                        "interface": _text(error.theirs),
                        "message": str(error),
                    }
                    for error in left_out
                ],
            }
        )
        return
    rows = [
        (
            info.distribution,
            info.version,
            _text(speaks[info.distribution]),
            ", ".join(info.offers) or "nothing yet",
        )
        for info in found
    ]
    for line in table(("DISTRIBUTION", "VERSION", "INTERFACE", "OFFERS"), rows):
        click.echo(line)
    for error in left_out:
        click.echo(f"not used: {error}", err=True)


def _text(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"
