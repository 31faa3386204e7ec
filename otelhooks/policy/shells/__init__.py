"""The rule `shell_only`: which commands may run, by lists of what is allowed.

`reader` reads a text as a tree of commands, and refuses what shells read differently. `table` has
the programs, and `options` takes their arguments apart as it says. `kinds` judges each value,
with `scripts` for the programs of sed, awk and jq, and `places` for paths. `judge` follows the
tree, with `effects` for what a command does beyond its values, and `rules` makes policies of it.
"""
