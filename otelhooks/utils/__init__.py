"""Import paths of google-antigravity's ``utils``, as aliases."""
