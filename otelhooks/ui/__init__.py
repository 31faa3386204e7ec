"""The console: `otelhooks ui` shows calls, runs and questions of the local store in a browser.

Needs the extra ``ui``. Everything that it shows comes from models, tools and people: the templates
escape it, no page has a script of its own, and no browser of another site can send an answer.
"""
