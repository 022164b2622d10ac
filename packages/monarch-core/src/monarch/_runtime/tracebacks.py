"""Tracebacks as text, for people who do not know what runs their code."""

from __future__ import annotations

import traceback
from pathlib import Path

_OURS = f"{Path(__file__).parents[1]}/"


def format_from_user(error: BaseException) -> str:
    """Return the traceback as text, without the frames of ours that called the user's code."""
    first = error.__traceback__
    while first is not None and first.tb_frame.f_code.co_filename.startswith(_OURS):
        first = first.tb_next
    return "".join(traceback.format_exception(type(error), error, first or error.__traceback__))
