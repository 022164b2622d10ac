"""Breakpoints in actors: what stops there, and what tells a terminal about it."""
