"""What we say about the Hedera Agent Kit's hooks and policies."""

from __future__ import annotations

from otelhooks_migrate.upstream import Judgement, Remark, Verdict

__all__ = ["JUDGEMENT"]

_ROOT = "hedera_agent_kit"
_HOOK = f"{_ROOT}.shared.hook"
_POLICY = f"{_ROOT}.shared.policy.AbstractPolicy"
_MOST = f"{_ROOT}.policies.max_recipients_policy.MaxRecipientsPolicy"
_TRAIL = f"{_ROOT}.hooks.hcs_audit_trail_hook.HcsAuditTrailHook"
_CONTEXT = f"{_ROOT}.shared.configuration.Context"

_PARAMS = (
    "PreToolExecutionParams",
    "PostParamsNormalizationParams",
    "PostCoreActionParams",
    "PostSecondaryActionParams",
)

_STAGES = (
    "pre_tool_execution",
    "post_params_normalization",
    "post_core_action",
    "post_secondary_action",
)

JUDGEMENT = Judgement(
    distribution="hedera-agent-kit",
    root=_ROOT,
    moved={
        f"{_HOOK}.AbstractHook": "otelhooks.hooks.AbstractHook",
        _POLICY: "otelhooks.policy.AbstractPolicy",
        _MOST: "otelhooks.policy.MaxRecipientsPolicy",
        _TRAIL: "otelhooks.audit.HcsAuditTrailHook",
        f"{_ROOT}.policies.reject_tool_policy.RejectToolPolicy": (
            "otelhooks.policy.RejectToolPolicy"
        ),
        **{f"{_HOOK}.{name}": f"otelhooks.hooks.compat.tool_bound.{name}" for name in _PARAMS},
    },
    remarks={
        f"{_ROOT}.hooks.utils": Remark(Verdict.STAYS, "a helper of the kit"),
        _CONTEXT: Remark(Verdict.STAYS, "the kit's own; in its tools hooks get it as `context`"),
        f"{_CONTEXT}(hooks)": Remark(
            Verdict.MISSING,
            "hooks of otelhooks leave no verdict there, and an audit trail knows only what ran:"
            " give them to `otelhooks.instrument(hooks=[...])`",
        ),
        **{
            f"{_HOOK}.{name}()": Remark(
                Verdict.MISSING,
                "the pipeline makes it; a test makes `otelhooks.hooks.stages.StageParams(method,"
                " context)` and sets its fields",
            )
            for name in _PARAMS
        },
        f"{_MOST}(custom_strategies)": Remark(
            Verdict.DIFFERS,
            "a counter gets the arguments as a dict, except in the kit's own tools, where it gets"
            " their normalized parameters",
        ),
        f"{_MOST}.should_block_post_params_normalization(all_params)": Remark(
            Verdict.MISSING, "the keyword is `params`"
        ),
        _TRAIL: Remark(
            Verdict.DIFFERS,
            "denied and failed calls are recorded too, arguments are masked, and messages are JSON;"
            " `executed_only=True` records what the kit's own does",
        ),
        f"{_TRAIL}.post_secondary_action_hook(_context)": Remark(
            Verdict.MISSING, "the keyword is `context`"
        ),
        f"{_TRAIL}.post_message_to_hcs_topic": Remark(
            Verdict.MISSING, "records go to the topic by themselves"
        ),
        f"{_ROOT}.hooks.hol_audit_trail_hook": Remark(
            Verdict.MISSING,
            "write `otelhooks.instrument(audit=...)`, a chained trail on disk of every verdict, or"
            " keep the kit's own in its `Context`",
        ),
    },
    overrides={
        f"{_POLICY}.{stage}_hook": Remark(
            Verdict.MISSING,
            f"a policy that overrides this is a TypeError: override `should_block_{stage}`",
        )
        for stage in _STAGES
    },
    lacks={
        _POLICY: (
            frozenset(f"should_block_{stage}" for stage in _STAGES),
            Remark(
                Verdict.MISSING,
                "a policy that overrides no `should_block_...` is a TypeError: it never blocks",
            ),
        ),
        f"{_HOOK}.AbstractHook": (
            frozenset({"relevant_tools"}),
            Remark(
                Verdict.MISSING,
                "without `relevant_tools` it cannot be registered: list names, or `*` for all",
            ),
        ),
    },
)
