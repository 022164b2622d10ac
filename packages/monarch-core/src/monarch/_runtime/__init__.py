"""Runs actors: mailboxes, order, ports, processes, failure. Users see it through `monarch.actor`."""
