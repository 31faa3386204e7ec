"""The checker of `otelhooks.hooks.compat.check`: tables, names in a file, findings, new imports."""
