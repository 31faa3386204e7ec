"""Tools for working on policies: check, test, explain, replay, compare, draft.

They make no decisions of their own: every verdict comes from the generators that decide in a
running program (`otelhooks.policy_tools.dry_run`).
"""
