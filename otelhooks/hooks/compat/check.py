"""Shows what works here in a file that was written for google-antigravity's or Hedera's hooks.

    python -m otelhooks.hooks.compat.check FILE...

The checker is a package of its own, because only a migration needs it.
"""

import sys

if __name__ == "__main__":
    try:
        from otelhooks_migrate.check import check
    except ModuleNotFoundError as _error:
        if _error.name != "otelhooks_migrate":
            raise
        sys.stderr.write("error: the checker is not installed\n")
        sys.stderr.write('hint: `pip install "otelhooks[migrate]"`\n')
        sys.exit(2)
    check()
