"""Values in texts: what the user said, what came out of a result, what cannot be seen."""
