"""Names, providers, instruments, events and content of what otelhooks emits."""
