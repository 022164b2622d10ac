"""Runs the `monarch` command as `python -m monarch`, where its script is not on the path."""

import sys

from monarch.cli import main

sys.exit(main())
