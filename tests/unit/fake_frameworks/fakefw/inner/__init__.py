"""Imported later than the rest."""
