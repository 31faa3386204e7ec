"""A small framework with every kind of seat; it imports its submodules only on demand."""
