"""Commands and paths in arguments, as rules that deny read them. Nothing is run."""
