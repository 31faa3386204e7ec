"""A framework's own classes and functions: found, compared, replaced; mistakes in adapters."""
