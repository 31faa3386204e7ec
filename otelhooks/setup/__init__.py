"""`otelhooks.instrument()`: settings in, one runtime out, frameworks patched. Private."""
