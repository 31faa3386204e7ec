"""Loops that run in another process, whose messages are all that passes here."""
