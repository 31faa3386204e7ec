"""Limits: counts, costs, and where several processes keep them."""
