"""The demonstration behind ``otelhooks demo``: real agents under a policy, with scripted models."""
