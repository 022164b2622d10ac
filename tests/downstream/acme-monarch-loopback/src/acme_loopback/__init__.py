"""Monarch processes of one host over TCP."""
