"""Starts processes from a helper, which is their parent and outlives the program by a moment.

The helper, called keeper, reaps the processes and ends what they leave behind. Where it was forked
from the program before that had threads, or has imported what the program imported, it is a zygote:
processes are forked from it and share all modules, instead of importing them again.
"""
