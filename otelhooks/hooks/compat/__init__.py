"""Ways to write hooks for people who come from other systems; one registry and pipeline under all.

`otelhooks.hooks` and `otelhooks.policy` export them: `LifecycleHook` and `Hooks` with
`observing_hooks`, `AbstractHook` and `AbstractPolicy` with two ready-made policies.
``python -m otelhooks.hooks.compat.check FILE`` says what of a file works with its imports changed.
"""
