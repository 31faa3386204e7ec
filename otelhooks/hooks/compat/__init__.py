"""Ways to write hooks for users of other systems; all share one registry and pipeline.

`otelhooks.hooks` and `otelhooks.policy` export them: `LifecycleHook` and `Hooks` with
`observing_hooks`, `AbstractHook` and `AbstractPolicy` with two ready-made policies.
``python -m otelhooks.hooks.compat.check FILE`` reports what in a file works with changed imports.
"""
