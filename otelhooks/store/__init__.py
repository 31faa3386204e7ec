"""The local store: where traces and decisions go if nothing else is configured.

`writer` has the two exporters, `reader` the queries, `tree` the terminal view, `otlp` the way on to
a collector. Nothing is imported here, because ``sqlite3`` and the SDK are loaded only on use.
"""
