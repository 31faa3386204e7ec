"""What one works on policies with: check, test, explain, replay, compare, draft.

Nothing here decides: every verdict comes from the generators that decide in a running program
(`otelhooks.policy.tools.dry_run`).
"""
