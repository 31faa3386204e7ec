"""Every example of the five documents, and what tests it here.

A test is the name of an example in this folder, played in each framework, or, where a framework has
nothing to do with it, a file and a test in it.
"""

# ruff: noqa: E501  # names of tests are as long as they are

from __future__ import annotations

from typing import NamedTuple

__all__ = ["CATALOGUE", "Entry"]


class Entry(NamedTuple):
    """One example of a document.

    Attributes:
        shows: What it is about.
        tests: What tests it.
        otherwise: What is not as in the document, and why.
    """

    shows: str
    tests: tuple[str, ...]
    otherwise: str = ""


CATALOGUE: dict[str, tuple[Entry, ...]] = {
    "Antigravity SDK for Rust, hooks and policies": (
        Entry(
            "a trait with nine methods that do nothing, override what you need",
            (
                "NothingOverridden",
                "tests/unit/test_lifecycle_hook.py::test_each_is_called_at_its_point",
                "tests/unit/test_lifecycle_hook.py::test_those_that_are_not_overridden_are_not_registered",
            ),
        ),
        Entry("pre_tool_call and pre_turn stop at the first refusal", ("FirstDecisionCounts",)),
        Entry("on_tool_error stops at the first recovery", ("FirstRecoveryCounts",)),
        Entry(
            "on_interaction stops at the first answer",
            (
                "tests/unit/test_points.py::test_the_first_answer_is_used",
                "tests/frameworks/test_mcp_questions.py::test_a_hook_answers_for_the_user",
                "tests/frameworks/test_google_antigravity_turns.py::test_are_answered_by_a_hook_or_the_application",
            ),
        ),
        Entry(
            "a runner dispatches every event to the hooks that are registered",
            (
                "tests/unit/test_runner.py::test_every_point_has_a_keyword_and_a_property",
                "tests/unit/test_runner.py::test_agents_models_questions_and_the_end",
            ),
        ),
        Entry(
            "on_compaction",
            (
                "tests/frameworks/test_google_antigravity_turns.py::test_a_compaction_is_shown_to_hooks",
            ),
        ),
        Entry(
            "contexts of session, turn and operation: reads walk outwards, writes stay",
            (
                "ContextLayers",
                "tests/unit/test_state.py::test_a_value_of_another_type_counts_as_absent",
            ),
        ),
        Entry(
            "nine buckets of precedence",
            (
                "Buckets",
                "tests/unit/test_policy_cases.py::test_the_engines_own_cases_are_cases_that_anybody_may_write",
            ),
        ),
        Entry("policies for one tool: allow, deny, ask_user", ("SingleToolPolicies",)),
        Entry("wildcards: allow_all, deny_all", ("NothingOverridden", "DenyAll")),
        Entry("confirm_run_command", ("ConfirmRunCommand", "NobodyConfirms")),
        Entry("workspace_only", ("WorkspaceOnly",)),
        Entry("policies of an MCP server: allow_mcp, deny_mcp, ask_user_mcp", ("ServerPolicies",)),
        Entry("a predicate narrows a policy", ("Predicate",)),
        Entry("enforce compiles a table", ("Enforced",)),
        Entry(
            "enforce refuses an ask without a handler",
            ("tests/unit/test_policy_enforce.py::test_an_ask_needs_a_handler",),
        ),
        Entry(
            "enforce refuses server policies without servers",
            ("tests/unit/test_policy_enforce.py::test_server_rules_need_the_servers",),
        ),
        Entry("LoggingHook", ("Logging",)),
        Entry("RateLimitHook", ("RateLimit", "ReadyMadeRateLimit")),
        Entry("AuditHook", ("AuditOfTools",)),
        Entry("ErrorRecoveryHook", ("ErrorRecovery",)),
        Entry("a hook that is registered before the start", ("RegisteredLater",)),
    ),
    "Google Antigravity SDK, hooks design": (
        Entry("three kinds: inspect, decide, transform", ("ThreeKinds",)),
        Entry("decide before inspect: what was judged is what runs", ("WhatWasDecidedIsWhatRuns",)),
        Entry(
            "a correlation id from the turn's hook to the tool's", ("Correlation", "ContextLayers")
        ),
        Entry("a tool that keeps its page, out of hooks' sight", ("StateOfTools",)),
        Entry(
            "built-in tools of the harness",
            (
                "tests/frameworks/test_google_antigravity_calls.py::test_are_denied_by_name_and_kind",
                "tests/frameworks/test_google_antigravity_calls.py::test_show_hooks_their_result",
                "tests/frameworks/test_google_antigravity_calls.py::test_show_hooks_a_failure",
            ),
        ),
        Entry("tools in Python run the whole pipeline", ("ThreeKinds",)),
        Entry(
            "sub-agents: their start is a call, their calls are judged",
            ("SubagentUnderTheSameRules", "NoSubagents"),
        ),
        Entry("text of the model, read after the turn", ("AnswerIsRead",)),
        Entry("a decision that fails denies", ("DeciderThatFails",)),
        Entry(
            "deny by default, allow reading, deny removing, ask for the rest", ("DenyByDefault",)
        ),
        Entry("levels of precedence", ("Buckets",)),
        Entry("a predicate that raises holds", ("PredicateThatFails",)),
        Entry("a handler asks a person", ("DeniedHandler", "ConfirmRunCommand")),
        Entry(
            "asking in the terminal",
            (
                "tests/unit/test_terminal.py::test_only_y_and_yes_approve",
                "tests/unit/test_terminal.py::test_an_option_is_chosen_by_number_text_or_id",
            ),
        ),
        Entry(
            "tools that the model never sees, beside tools that are denied",
            ("HiddenTool", "SingleToolPolicies"),
        ),
        Entry(
            "turns without a user",
            (
                "tests/unit/test_pipeline_run.py::test_a_turn_of_a_trigger_says_so",
                "tests/frameworks/test_google_antigravity_turns.py::test_start_a_turn_that_is_guarded",
            ),
            otherwise="there they are not intercepted; here they are, where a seat exists",
        ),
    ),
    "AI Harness, hooks": (
        Entry("command_guard", ("CommandGuard",)),
        Entry("turn.start: add context, refuse empty messages", ("TurnStart",)),
        Entry("tool.pre: allow, block, modify", ("Decisions", "CommandGuard")),
        Entry("tool.post: redact, withhold", ("RedactedResult", "WithheldResult")),
        Entry("turn.end: a summary of what was logged", ("TurnEnd",)),
        Entry(
            "low priority first, first block wins, later files cannot undo it",
            ("OrderOfPriorities", "Decisions"),
        ),
        Entry(
            "built-ins: metrics, log, cache",
            (
                "CacheOfARun",
                "TurnEnd",
                "tests/unit/test_script_functions.py::test_metrics_become_instruments",
            ),
        ),
        Entry(
            "built-ins: http to hosts on a list",
            ("NetworkOfFiles", "tests/unit/test_script_functions.py::test_a_named_host_is_called"),
        ),
        Entry(
            "no exec, no files",
            ("tests/unit/test_script_functions.py::test_there_is_nothing_else",),
        ),
        Entry(
            "the stack of seven files",
            (
                "GovernedStack",
                "tests/unit/test_governed_pack.py::test_the_seven_guards_and_their_order",
            ),
        ),
        Entry("a file about files", ("EveryFileHasItsPriority",)),
        Entry(
            "filter, sort, dispatch, compose, return",
            (
                "Decisions",
                "tests/unit/test_hook_files.py::test_a_rewrite_is_put_to_earlier_gates_again",
            ),
        ),
        Entry("no agent gets round a file", ("CommandGuardOverDelegates",)),
        Entry("agent.stop", ("SentOn",)),
        Entry(
            "delegation.post_verify",
            (
                "DelegateIsVerified",
                "tests/frameworks/test_openai_agents_hook_files.py::test_after_two_more_attempts_its_answer_is_withheld",
            ),
        ),
    ),
    "Hedera Agent Kit, hooks and policies": (
        Entry(
            "HcsAuditTrailHook",
            (
                "AuditTrail",
                "tests/servers/test_hcs.py::test_an_allowed_call_is_on_the_topic_signed_by_the_operator",
                "tests/frameworks/test_hedera_agent_kit_hcs.py::test_a_tool_is_denied_in_the_mode_that_returns_bytes",
            ),
            otherwise="the example has a sink of its own; the topic's tests have a network",
        ),
        Entry("MaxRecipientsPolicy, with further tools and counters", ("MaxRecipients",)),
        Entry("RejectToolPolicy", ("RejectTool",)),
        Entry(
            "a hook at four places of a call",
            (
                "FourPlaces",
                "ParamsRewritten",
                "tests/frameworks/test_hedera_agent_kit_stages.py::test_the_places_lie_between_the_steps_around_the_kits_own_hooks",
            ),
        ),
        Entry("a policy of one's own", ("CustomPolicy", "ResultBlocked")),
        Entry(
            "a policy has a block, and leaves the hook's methods alone",
            (
                "tests/unit/test_tool_bound_hooks.py::test_one_without_a_block_is_refused_when_the_class_is_made",
                "tests/unit/test_tool_bound_hooks.py::test_one_that_overrides_a_hook_is_refused_when_the_class_is_made",
            ),
        ),
        Entry(
            "tools of the first generation",
            (
                "tests/frameworks/test_hedera_agent_kit_stages.py::test_a_tool_of_the_first_generation_is_one_step_with_the_kits_context",
            ),
            otherwise="there they have no hooks; here they have, as one step",
        ),
    ),
    "An agent library in Go, hooks": (
        Entry("log tool calls with their branch", ("ToolUseIsLogged",)),
        Entry("deny a tool", ("ToolIsDenied",)),
        Entry("modify a tool's input", ("InputIsRedacted",)),
        Entry("modify a tool's output", ("OutputIsModified",)),
        Entry("modify a model's messages", ("MessageIsInjected",)),
        Entry("modify a model's answer", ("ModelAnswerIsModified",)),
        Entry("recover a tool", ("ToolErrorIsRecovered", "FirstRecoveryCounts")),
        Entry("recover a model", ("ModelErrorIsRecovered",)),
        Entry("answer in an agent's place, from a cache", ("CachedAnswer",)),
        Entry("deny an agent", ("AgentIsDenied",)),
        Entry("sanitise what an agent answers", ("AnswerIsSanitised",)),
        Entry("time runs, count errors", ("RunsAreTimed",)),
        Entry("validate a user's message", ("UserMessageIsChecked",)),
        Entry(
            "a resumed run has no user's message",
            ("tests/unit/test_pipeline_run.py::test_a_resumed_run_has_no_user_message",),
        ),
        Entry("observe every event, once a point", ("EventsOnce", "ObservedStory")),
        Entry("chains: deny wins", ("DenyWinsAtOnce",)),
        Entry("chains: the last change wins", ("LastModificationWins",)),
        Entry("chains: fields that are left out", ("ToolIsDenied",)),
        Entry("observing hooks", ("ObservedStory",)),
        Entry("branches of a hierarchy", ("Branches",)),
        Entry(
            "sub-agents inherit hooks",
            ("SubagentsInherit",),
            otherwise="there a sub-agent's own hooks take the place of its parent's; here they are added",
        ),
        Entry("events stream to a page", ("StreamToUi",)),
    ),
}
