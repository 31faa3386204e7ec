"""Raw clients: calls of models whose answers a loop of the user's own reads."""
