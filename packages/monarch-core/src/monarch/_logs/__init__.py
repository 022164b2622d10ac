"""Brings the output of actor processes to the client and to files.

Nothing is imported here: the collector, a program of its own, uses the modules that need no more
than the standard library (`collector`, `files`, `folding`, `frames`, `lines`, `marks`, `view`), and
has to start in a few milliseconds.
"""
