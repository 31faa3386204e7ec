"""What a project's own files say about its agents, and a first policy for them.

Files are parsed. None of their code is imported or run.
"""
