"""What we say about google-antigravity's hooks, policies, records and helpers."""

from __future__ import annotations

from otelhooks_migrate.upstream import Judgement, Remark, Verdict

__all__ = ["JUDGEMENT"]

_ROOT = "google.antigravity"
_TYPES = f"{_ROOT}.types"
_HOOKS = f"{_ROOT}.hooks.hooks"
_POLICY = f"{_ROOT}.hooks.policy"
_RUNNER = f"{_ROOT}.hooks.hook_runner.HookRunner"
_STORE = f"{_ROOT}.utils.state.StateStore"


def _stays(reason: str, *names: str) -> dict[str, Remark]:
    return dict.fromkeys(names, Remark(Verdict.STAYS, reason))


def _differs(reason: str, *names: str) -> dict[str, Remark]:
    return dict.fromkeys(names, Remark(Verdict.DIFFERS, reason))


def _missing(reason: str, *names: str) -> dict[str, Remark]:
    return dict.fromkeys(names, Remark(Verdict.MISSING, reason))


_CONFIGS = tuple(
    f"{_ROOT}.connections.{name}"
    for name in (
        "connection.AgentConfig",
        "local.litert_connection_config.LiteRTAgentConfig",
        "local.local_connection_config.LocalAgentConfig",
        "local.local_openai_connection_config.LocalOpenAIAgentConfig",
    )
)

JUDGEMENT = Judgement(
    distribution="google-antigravity",
    root=_ROOT,
    modules={
        f"{_ROOT}.hooks": "otelhooks.hooks",
        f"{_ROOT}.hooks.hook_runner": "otelhooks.hooks.hook_runner",
        f"{_ROOT}.hooks.hooks": "otelhooks.hooks.hooks",
        f"{_ROOT}.hooks.policy": "otelhooks.hooks.policy",
        f"{_ROOT}.policy": "otelhooks.policy",
        _TYPES: "otelhooks.types",
        f"{_ROOT}.utils.interactive": "otelhooks.utils.interactive",
        f"{_ROOT}.utils.state": "otelhooks.utils.state",
    },
    moved={
        f"{_ROOT}.utils.interactive.QuestionResponse": "otelhooks.types.QuestionResponse",
    },
    remarks={
        **_stays(
            "the agent stays where it is; `otelhooks.instrument()` guards it",
            f"{_ROOT}.agent",
            f"{_ROOT}.beta",
            f"{_ROOT}.connections",
            f"{_ROOT}.conversation",
            f"{_ROOT}.proto",
            f"{_ROOT}.triggers",
            f"{_ROOT}.workflows",
            f"{_ROOT}.tools",
        ),
        **_stays(
            "tools of google-antigravity's agent take it; a function under `@otelhooks.tool` takes"
            " `otelhooks.types.ToolContext`",
            f"{_ROOT}.tools.tool_context.ToolContext",
        ),
        **_stays("it chooses the agent's model", f"{_ROOT}.models"),
        **_stays(
            "it configures or describes google-antigravity's agent",
            *(
                f"{_TYPES}.{name}"
                for name in (
                    "AgentBehavior BudgetConfig BudgetScope BuiltinSlashCommandName"
                    " CapabilitiesConfig ChatResponse CompactionConfig ContentPrimitive"
                    " CustomSystemInstructions InlineSkill ModelAPIRetryConfig"
                    " ModelOutputRetryConfig PythonTool RetryConfig RunCommandConfig"
                    " SUPPORTED_AUDIO_MIMES SUPPORTED_DOCUMENT_MIMES SUPPORTED_IMAGE_MIMES"
                    " SUPPORTED_VIDEO_MIMES SandboxStatus SessionContinuationMode SlashCommand"
                    " StreamChunk SubagentCapabilities SubagentConfig SubagentInheritSkillsConfig"
                    " SubagentNoneSkillsConfig SubagentOverrideSkillsConfig SubagentSkillsConfig"
                    " SystemInstructionSection SystemInstructions TemplatedSystemInstructions Text"
                    " Thought ToolOutputTruncationConfig WorkflowProgress WorkflowResult"
                ).split()
            ),
        ),
        **_stays(
            "google-antigravity's agent raises it; no hook gets it",
            f"{_TYPES}.AntigravityCancelledError",
            f"{_TYPES}.AntigravityConnectionError",
            f"{_TYPES}.AntigravityExecutionError",
            f"{_TYPES}.AntigravityValidationError",
        ),
        **_missing(
            "hooks get what the tool raised, as it is; `context.get('tool_name')` names the tool",
            f"{_TYPES}.ToolExecutionError",
        ),
        **_missing(
            "write `otelhooks.types.Usage`, with `input_tokens` and `output_tokens`",
            f"{_TYPES}.UsageMetadata",
        ),
        **_missing(
            'write "start_subagent", which rules take for "invoke_subagent"',
            f"{_TYPES}.DEPRECATED_START_SUBAGENT",
        ),
        # -- policy
        **_differs(
            "it is enforced here, path by path; there only the program that runs the agent does it",
            f"{_POLICY}.workspace_only",
        ),
        **_differs(
            "nothing assesses calls here: what no more specific rule allows is denied, or asked",
            f"{_POLICY}.auto",
            f"{_POLICY}.AutoPolicy",
        ),
        **_missing("give `model` by keyword", f"{_POLICY}.AutoPolicy(2)"),
        **_differs("it is kept and not used: nothing assesses calls", f"{_POLICY}.auto(model)"),
        **_missing("the keyword is `dirs`", f"{_POLICY}.workspace_only(workspaces)"),
        **_missing("write `str | os.PathLike[str]`", f"{_POLICY}.PathOrStr"),
        # -- hooks
        **_differs(
            "what it returns is the tool's result here, and no error any more; to change only the"
            " message return `(HookResult(allow=False, message=...), None)`",
            f"{_HOOKS}.OnToolErrorHook",
            f"{_HOOKS}.on_tool_error",
        ),
        **_missing(
            "write `InspectHook | DecideHook | TransformHook`",
            f"{_HOOKS}.Hook",
        ),
        **{
            f"{_HOOKS}.{name}(func)": Remark(Verdict.MISSING, "give the function by position")
            for name in (
                "on_compaction on_interaction on_session_end on_session_start on_tool_error"
                " post_tool_call post_turn pre_tool_call_decide pre_turn stop"
            ).split()
        },
        # -- runner
        **_missing(
            "steps are no point; `OnEventHook` hears of every model call, tool call and turn",
            f"{_RUNNER}.dispatch_pre_step",
            f"{_RUNNER}.dispatch_post_step",
            f"{_RUNNER}(_pre_step_hooks)",
            f"{_RUNNER}(_post_step_hooks)",
        ),
        **_missing(
            "the keyword is `tool_result`",
            f"{_RUNNER}.dispatch_post_tool_call(result)",
        ),
        **_missing(
            "the keyword is `fn`",
            *(
                f"{cls}.update_state(updater_fn)"
                for cls in (
                    _STORE,
                    f"{_HOOKS}.HookContext",
                    f"{_HOOKS}.SessionContext",
                    f"{_HOOKS}.TurnContext",
                    f"{_HOOKS}.OperationContext",
                )
            ),
        ),
        # -- what an agent is given
        **_missing(
            "the agent takes only hooks of its own package: give these to"
            " `otelhooks.instrument(hooks=[...])`",
            *(f"{config}(hooks)" for config in _CONFIGS),
        ),
        **_missing(
            "the agent takes only rules of its own package: give these to"
            " `otelhooks.instrument(policies=[...])`, and to the agent its own `allow_all()`",
            *(f"{config}(policies)" for config in _CONFIGS),
        ),
        # -- helpers
        **_missing(
            "`otelhooks.instrument()` makes the spans, in every framework",
            f"{_ROOT}.utils.otel",
        ),
        **_missing(
            "there is no agent here to talk to: give `otelhooks.instrument` the same hooks and"
            " rules, and run your agent's own loop",
            f"{_ROOT}.utils.interactive.run_interactive_loop",
        ),
        **_missing(
            "nothing shows progress here: take it out",
            f"{_ROOT}.utils.interactive.Spinner",
        ),
    },
    deciders=frozenset({f"{_HOOKS}.PreToolCallDecideHook", f"{_HOOKS}.pre_tool_call_decide"}),
    overrides={
        f"{_RUNNER}.{name}": Remark(
            Verdict.DIFFERS,
            "frameworks do not go through a `HookRunner` here: only your own calls run it",
        )
        for name in (
            "dispatch_compaction dispatch_interaction dispatch_on_tool_error"
            " dispatch_post_tool_call dispatch_post_turn dispatch_pre_tool_call dispatch_pre_turn"
            " dispatch_session_end dispatch_session_start dispatch_stop"
        ).split()
    },
)
