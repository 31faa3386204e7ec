"""The tool calls that the examples' models ask for, and the trace of one that goes through."""

from tests.frameworks.contract import Ask

__all__ = ["CALM", "LIST", "MESSAGE", "RATE", "REMOVE", "RESEARCH", "UNKNOWN_RATE", "VIEW"]

VIEW = Ask("view_file", {"path": "notes.txt"})
LIST = Ask("run_command", {"CommandLine": "ls"})
REMOVE = Ask("run_command", {"CommandLine": "rm -r build"})
RATE = Ask("fetch_rate", {"currency": "EUR"})
"""It fails: the service is down."""
UNKNOWN_RATE = Ask("fetch_rate", {"currency": "XYZ"})
"""It fails: there is no such currency."""
MESSAGE = Ask("send_message", {"to": "ada", "text": "the key is SECRET"})
RESEARCH = Ask("researcher", {"task": "find out"})

CALM = """
    invoke_agent ops
      chat scripted
      execute_tool view_file
      chat scripted
"""
"""Trace of one call, `VIEW`, that there is nothing to say about."""
