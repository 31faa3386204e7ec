"""Plain functions under the pipeline: `@tool`, `@agent`, `@model_call`, one module each.

A function may be synchronous, asynchronous, a generator or an asynchronous generator. A refusal
raises `otelhooks.errors.Denied`, since a plain function has no other form for it.
"""
