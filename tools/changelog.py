"""Moves the change fragments of one package into its CHANGELOG.md.

hatch run changes:draft monarch-core 0.2.0     show the section
hatch run changes:write monarch-core 0.2.0     write it and remove the fragments
"""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    """Run towncrier with the settings of the repository on one package."""
    parser = argparse.ArgumentParser(description="Move the fragments of one package into its changelog.")
    parser.add_argument("package", choices=sorted(path.name for path in (ROOT / "packages").iterdir()))
    parser.add_argument("version")
    parser.add_argument("--draft", action="store_true", help="only show the section")
    args = parser.parse_args()
    command = ["towncrier", "build", "--config", str(ROOT / "pyproject.toml"), "--yes"]
    command += ["--dir", str(ROOT / "packages" / args.package), "--version", args.version]
    if args.draft:
        command.append("--draft")
    return subprocess.run(command).returncode


if __name__ == "__main__":
    raise SystemExit(main())
