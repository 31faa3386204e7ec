"""``python -m otelhooks``: the same as the ``otelhooks`` command."""

from otelhooks.cli import main

if __name__ == "__main__":
    main()
