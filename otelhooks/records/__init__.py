"""Records that every layer passes on. Private as a whole; users import `otelhooks.types`."""
