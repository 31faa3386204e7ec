"""The adapters, one package per framework; each is imported with its framework. Private."""
