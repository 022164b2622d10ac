"""Plugins that ship with the core and enter by the same door as any other."""
