"""The tokens of a command's text: signs, quotes, expansions, and chunks of words."""

from __future__ import annotations

import re

__all__ = ["IN_DOUBLE", "TOKEN"]

_NESTED = r"(?:[^{}]|\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\})*"
_BALANCED = r"(?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*"
_EXPANSIONS = rf"""
  | (?P<arithmetic>\$?\(\({_BALANCED}\)\)|\$\[[^\[\]]*\])
  | (?P<open>\$\(|`)
  | \$\{{(?P<braced>{_NESTED})\}}
  | \$(?P<variable>[A-Za-z_]\w*|[0-9@*\#?$!-])
  | (?P<unread>\$[\[{{])
"""
TOKEN = re.compile(
    r"""
    (?P<joined>\\\r?\n)
  | \\(?P<escaped>.)
  | \$'(?P<ansi>(?:[^'\\]|\\.)*)(?:'|\Z)
  | '(?P<single>[^']*)(?:'|\Z)
  | (?P<double>\$?")
  """
    + _EXPANSIONS
    + r"""
  | (?P<close>\))
  | (?P<heredoc><<-?(?!<))
  | (?P<redirect>\d*(?:&>>?|[<>]&|<<<|>>|>\||<>|[<>]))
  | (?P<end>[;&|(\n]+)
  | (?P<blank>[^\S\n]+)
  | (?P<comment>\#[^\n]*)
  | (?P<chunk>[^\s\\'"`$()<>;&|\#]+|.)
    """,
    re.VERBOSE | re.DOTALL,
)
IN_DOUBLE = re.compile(
    r"""
    (?P<joined>\\\r?\n)
  | \\(?P<escaped>[$`"\\])
  | (?P<double>")
  """
    + _EXPANSIONS.replace(r"\$?\(\(", r"\$\(\(")
    + r"""
  | (?P<chunk>[^\\"`$]+|.)
    """,
    re.VERBOSE | re.DOTALL,
)
