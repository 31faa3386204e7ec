"""The adapters, a package for each framework; imported by name when its framework is. Private."""
