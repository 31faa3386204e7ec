"""Streams in the forms in which frameworks return them, as operations."""
