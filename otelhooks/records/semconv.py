"""Every attribute, span, metric and event name that otelhooks puts on the wire, and their values.

A constant is its name in upper snake case: ``gen_ai.tool.name`` is `GEN_AI_TOOL_NAME`. The prefix
``otelhooks.`` of our own attributes is dropped: ``otelhooks.policy.decision`` is
`POLICY_DECISION`. Metrics start with ``METRIC_``, events with ``EVENT_``, span names of our own
with ``SPAN_``. Values of an attribute share a prefix: operation names ``OP_``, values of
``error.type`` ``ERROR_``, of ``otelhooks.policy.decision`` ``DECISION_``, and so on; each
group is headed by the attribute it belongs to.

The module imports nothing, so that hooks and policy may use it as well. The names of ``gen_ai.*``
and ``mcp.*`` are in Development and expected to change: a rename is one line here.

Source: OpenTelemetry GenAI conventions, main branch, November 2026; core conventions 1.44.
"""

# Instrumentation scope.
SCOPE_NAME = "otelhooks"
OWN_PREFIX = "otelhooks."
MCP_PREFIX = "mcp."
GEN_AI_PREFIX = "gen_ai."
GEN_AI_SCHEMA_URL = "https://opentelemetry.io/schemas/gen-ai/1.42.0"

# --- Attributes of the GenAI conventions ---------------------------------------------------
GEN_AI_OPERATION_NAME = "gen_ai.operation.name"
GEN_AI_PROVIDER_NAME = "gen_ai.provider.name"
GEN_AI_CONVERSATION_ID = "gen_ai.conversation.id"
GEN_AI_CONVERSATION_COMPACTED = "gen_ai.conversation.compacted"
GEN_AI_OUTPUT_TYPE = "gen_ai.output.type"

GEN_AI_REQUEST_MODEL = "gen_ai.request.model"
GEN_AI_REQUEST_CHOICE_COUNT = "gen_ai.request.choice.count"
GEN_AI_REQUEST_SEED = "gen_ai.request.seed"
GEN_AI_REQUEST_TOP_K = "gen_ai.request.top_k"
GEN_AI_REQUEST_STREAM = "gen_ai.request.stream"
GEN_AI_REQUEST_MAX_TOKENS = "gen_ai.request.max_tokens"
GEN_AI_REQUEST_TEMPERATURE = "gen_ai.request.temperature"
GEN_AI_REQUEST_TOP_P = "gen_ai.request.top_p"
GEN_AI_REQUEST_FREQUENCY_PENALTY = "gen_ai.request.frequency_penalty"
GEN_AI_REQUEST_PRESENCE_PENALTY = "gen_ai.request.presence_penalty"
GEN_AI_REQUEST_STOP_SEQUENCES = "gen_ai.request.stop_sequences"
GEN_AI_REQUEST_REASONING_LEVEL = "gen_ai.request.reasoning.level"
GEN_AI_REQUEST_PREVIOUS_RESPONSE_ID = "gen_ai.request.previous_response.id"

GEN_AI_RESPONSE_ID = "gen_ai.response.id"
GEN_AI_RESPONSE_MODEL = "gen_ai.response.model"
GEN_AI_RESPONSE_FINISH_REASONS = "gen_ai.response.finish_reasons"
GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"

GEN_AI_USAGE_INPUT_TOKENS = "gen_ai.usage.input_tokens"
GEN_AI_USAGE_OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
GEN_AI_USAGE_REASONING_OUTPUT_TOKENS = "gen_ai.usage.reasoning.output_tokens"
GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS = "gen_ai.usage.cache_read.input_tokens"
GEN_AI_USAGE_CACHE_WRITE_INPUT_TOKENS = "gen_ai.usage.cache_write.input_tokens"

GEN_AI_AGENT_NAME = "gen_ai.agent.name"
GEN_AI_AGENT_DESCRIPTION = "gen_ai.agent.description"
GEN_AI_AGENT_ID = "gen_ai.agent.id"
GEN_AI_AGENT_VERSION = "gen_ai.agent.version"
GEN_AI_DATA_SOURCE_ID = "gen_ai.data_source.id"
GEN_AI_WORKFLOW_NAME = "gen_ai.workflow.name"

GEN_AI_TOOL_NAME = "gen_ai.tool.name"
GEN_AI_TOOL_TYPE = "gen_ai.tool.type"
GEN_AI_TOOL_DESCRIPTION = "gen_ai.tool.description"
GEN_AI_TOOL_CALL_ID = "gen_ai.tool.call.id"
GEN_AI_TOOL_CALL_DECISION_OUTCOME = "gen_ai.tool.call.decision.outcome"
GEN_AI_TOOL_CALL_ARGUMENTS = "gen_ai.tool.call.arguments"
GEN_AI_TOOL_CALL_RESULT = "gen_ai.tool.call.result"
GEN_AI_TOOL_DEFINITIONS = "gen_ai.tool.definitions"

GEN_AI_SYSTEM_INSTRUCTIONS = "gen_ai.system_instructions"
GEN_AI_INPUT_MESSAGES = "gen_ai.input.messages"
GEN_AI_OUTPUT_MESSAGES = "gen_ai.output.messages"

GEN_AI_PROMPT_NAME = "gen_ai.prompt.name"
GEN_AI_PROMPT_VERSION = "gen_ai.prompt.version"
GEN_AI_PROMPT_VARIABLE_PREFIX = "gen_ai.prompt.variable."

GEN_AI_TOKEN_TYPE = "gen_ai.token.type"
GEN_AI_TOKEN_MODALITY = "gen_ai.token.modality"

# --- Attributes of OpenInference, which Phoenix lists runs by --------------------------------
# https://github.com/Arize-ai/openinference/blob/main/spec/semantic_conventions.md
INPUT_VALUE = "input.value"
OUTPUT_VALUE = "output.value"

# --- Attributes of the MCP conventions -----------------------------------------------------
MCP_METHOD_NAME = "mcp.method.name"
MCP_PROTOCOL_VERSION = "mcp.protocol.version"
MCP_RESOURCE_URI = "mcp.resource.uri"
MCP_SESSION_ID = "mcp.session.id"
JSONRPC_REQUEST_ID = "jsonrpc.request.id"
JSONRPC_PROTOCOL_VERSION = "jsonrpc.protocol.version"
RPC_RESPONSE_STATUS_CODE = "rpc.response.status_code"
NETWORK_TRANSPORT = "network.transport"
NETWORK_PROTOCOL_NAME = "network.protocol.name"
NETWORK_PROTOCOL_VERSION = "network.protocol.version"

# --- Attributes of the core conventions ----------------------------------------------------
ERROR_TYPE = "error.type"
EXCEPTION_TYPE = "exception.type"
EXCEPTION_MESSAGE = "exception.message"
EXCEPTION_STACKTRACE = "exception.stacktrace"
SERVER_ADDRESS = "server.address"
SERVER_PORT = "server.port"
CLIENT_ADDRESS = "client.address"
CLIENT_PORT = "client.port"
SESSION_ID = "session.id"
USER_ID = "user.id"
USER_HASH = "user.hash"
ENDUSER_ID = "enduser.id"
ENDUSER_PSEUDO_ID = "enduser.pseudo.id"
SECURITY_RULE_NAME = "security_rule.name"
SECURITY_RULE_RULESET_NAME = "security_rule.ruleset.name"
SECURITY_RULE_VERSION = "security_rule.version"
SERVICE_NAME = "service.name"
SERVICE_INSTANCE_ID = "service.instance.id"
METRIC_OVERFLOW = "otel.metric.overflow"

# --- Attributes of otelhooks ---------------------------------------------------------------
POLICY_DECISION = "otelhooks.policy.decision"
POLICY_ENFORCEMENT = "otelhooks.policy.enforcement"
POLICY_MODE = "otelhooks.policy.mode"
POLICY_ID = "otelhooks.policy.id"
POLICY_NAME = "otelhooks.policy.name"
POLICY_VERSION = "otelhooks.policy.version"
POLICY_RULE_ID = "otelhooks.policy.rule.id"
POLICY_RULE_TOOL = "otelhooks.policy.rule.tool"
POLICY_RULE_ASKED = "otelhooks.policy.rule.asked"
POLICY_REASON = "otelhooks.policy.reason"
POLICY_SEVERITY = "otelhooks.policy.severity"
POLICY_EVALUATIONS = "otelhooks.policy.evaluations"
POLICY_EVALUATION_DURATION = "otelhooks.policy.evaluation.duration"
POLICY_EVALUATOR = "otelhooks.policy.evaluator"
HOOK_POINT = "otelhooks.hook.point"
HOOK_NAME = "otelhooks.hook.name"
DECISION_ID = "otelhooks.decision.id"
APPROVAL_STATUS = "otelhooks.approval.status"
APPROVAL_WAIT_DURATION = "otelhooks.approval.wait.duration"
APPROVAL_APPROVER_TYPE = "otelhooks.approval.approver.type"
APPROVAL_APPROVER_ID = "otelhooks.approval.approver.id"
RECOVERED = "otelhooks.recovered"
ANSWERED = "otelhooks.answered"
WITHHELD = "otelhooks.withheld"
ARGUMENTS_HASH = "otelhooks.arguments.hash"
LABELS = "otelhooks.labels"
CANDIDATE_DECISION = "otelhooks.candidate.decision"
CANDIDATE_POLICY_ID = "otelhooks.candidate.policy.id"
CANDIDATE_RULE_ID = "otelhooks.candidate.rule.id"
CANDIDATE_VERSION = "otelhooks.candidate.version"
AGENT_BRANCH = "otelhooks.agent.branch"
NODE_NAME = "otelhooks.node.name"
TASK_ID = "otelhooks.task.id"
COST_USD = "otelhooks.cost.usd"
COST_UNKNOWN = "otelhooks.cost.unknown"
TOOL_SERVER = "otelhooks.tool.server"
MCP_TOOL_CHANGE = "otelhooks.mcp.tool.change"
MCP_TOOL_HASH = "otelhooks.mcp.tool.hash"
TOOL_CANONICAL = "otelhooks.tool.canonical"
TOOL_KIND = "otelhooks.tool.kind"
STREAM = "otelhooks.stream"
CONTEXT_PREFIX = "otelhooks.context."
ADAPTER_FRAMEWORK = "otelhooks.adapter.framework"
ADAPTER_VERSION = "otelhooks.adapter.version"
ADAPTER_STATE = "otelhooks.adapter.state"

# --- Values ----------------------------------------------------------------------------------
# gen_ai.operation.name
OP_CHAT = "chat"
OP_GENERATE_CONTENT = "generate_content"
OP_TEXT_COMPLETION = "text_completion"
OP_INVOKE_AGENT = "invoke_agent"
OP_INVOKE_WORKFLOW = "invoke_workflow"
OP_EXECUTE_TOOL = "execute_tool"

# gen_ai.provider.name
PROVIDER_OPENAI = "openai"
PROVIDER_GCP_GEN_AI = "gcp.gen_ai"
PROVIDER_GCP_VERTEX_AI = "gcp.vertex_ai"
PROVIDER_GCP_GEMINI = "gcp.gemini"
PROVIDER_ANTHROPIC = "anthropic"
PROVIDER_COHERE = "cohere"
PROVIDER_AZURE_AI_INFERENCE = "azure.ai.inference"
PROVIDER_AZURE_AI_OPENAI = "azure.ai.openai"
PROVIDER_IBM_WATSONX_AI = "ibm.watsonx.ai"
PROVIDER_AWS_BEDROCK = "aws.bedrock"
PROVIDER_PERPLEXITY = "perplexity"
PROVIDER_X_AI = "x_ai"
PROVIDER_DEEPSEEK = "deepseek"
PROVIDER_GROQ = "groq"
PROVIDER_MISTRAL_AI = "mistral_ai"
PROVIDER_MOONSHOT_AI = "moonshot_ai"

# gen_ai.tool.type
TOOL_TYPE_FUNCTION = "function"
TOOL_TYPE_EXTENSION = "extension"
TOOL_TYPE_DATASTORE = "datastore"

# gen_ai.output.type
OUTPUT_TYPE_TEXT = "text"
OUTPUT_TYPE_JSON = "json"
OUTPUT_TYPE_IMAGE = "image"
OUTPUT_TYPE_SPEECH = "speech"

# gen_ai.response.finish_reasons
FINISH_STOP = "stop"
FINISH_LENGTH = "length"
FINISH_CONTENT_FILTER = "content_filter"
FINISH_TOOL_CALL = "tool_call"
FINISH_COMPACTION = "compaction"
FINISH_ERROR = "error"

# gen_ai.token.type
TOKEN_INPUT = "input"
TOKEN_OUTPUT = "output"

# gen_ai.token.modality
MODALITY_TEXT = "text"
MODALITY_IMAGE = "image"
MODALITY_AUDIO = "audio"
MODALITY_UNKNOWN = "unknown"

# mcp.method.name: the method is recorded as sent; this value is a tool call.
MCP_METHOD_TOOLS_CALL = "tools/call"
MCP_METHOD_TOOLS_LIST = "tools/list"

# network.transport
TRANSPORT_PIPE = "pipe"
TRANSPORT_TCP = "tcp"
TRANSPORT_QUIC = "quic"

# error.type, besides qualified class names of exceptions
ERROR_POLICY_DENIED = "policy_denied"
ERROR_POLICY_ERROR = "policy_error"
ERROR_APPROVAL_REJECTED = "approval_rejected"
ERROR_APPROVAL_EXPIRED = "approval_expired"
ERROR_TOOL_ERROR = "tool_error"
ERROR_OTHER = "_OTHER"

# A metric's gen_ai.tool.name for an unregistered tool (models invent names).
TOOL_NAME_OTHER = "_OTHER"

# otelhooks.policy.decision and otelhooks.candidate.decision
OUTCOME_ALLOW = "allow"
OUTCOME_DENY = "deny"
OUTCOME_REQUIRE_APPROVAL = "require_approval"
DECISION_ALLOW = "allow"
DECISION_DENY = "deny"
DECISION_ASK = "ask"
DECISION_MODIFY = "modify"

# otelhooks.policy.enforcement
ENFORCEMENT_ALLOWED = "allowed"
ENFORCEMENT_BLOCKED = "blocked"
ENFORCEMENT_MODIFIED = "modified"
ENFORCEMENT_APPROVED = "approved"
ENFORCEMENT_REJECTED = "rejected"
ENFORCEMENT_EXPIRED = "expired"
ENFORCEMENT_OBSERVED = "observed"

# otelhooks.policy.mode
MODE_ENFORCE = "enforce"
MODE_MONITOR = "monitor"

# otelhooks.policy.severity
SEVERITY_LOW = "low"
SEVERITY_MEDIUM = "medium"
SEVERITY_HIGH = "high"
SEVERITY_CRITICAL = "critical"

# otelhooks.policy.id for rules without a file
POLICY_SOURCE_CODE = "code"
POLICY_SOURCE_HOOK = "hook"

# otelhooks.policy.evaluator
EVALUATOR_PYTHON = "python"
EVALUATOR_STARLARK = "starlark"
EVALUATOR_REMOTE = "remote"

# otelhooks.approval.status
APPROVAL_STATUS_PENDING = "pending"
APPROVAL_STATUS_APPROVED = "approved"
APPROVAL_STATUS_REJECTED = "rejected"
APPROVAL_STATUS_EXPIRED = "expired"
APPROVAL_STATUS_WITHDRAWN = "withdrawn"
APPROVAL_STATUS_ERROR = "error"

# otelhooks.approval.approver.type
APPROVER_HUMAN = "human"
APPROVER_SERVICE = "service"
APPROVER_RULE = "rule"

# otelhooks.stream
STREAM_PASS = "pass"

# otelhooks.adapter.state
ADAPTER_PATCHED = "patched"
ADAPTER_REFUSED = "refused"
ADAPTER_PARTIAL = "partial"
ADAPTER_OFF = "off"
ADAPTER_UNGUARDED = "unguarded"

# otelhooks.hook.point
POINT_SESSION_START = "session_start"
POINT_SESSION_END = "session_end"
POINT_RUN_START = "run_start"
POINT_RUN_END = "run_end"
POINT_PRE_TURN = "pre_turn"
POINT_POST_TURN = "post_turn"
POINT_PRE_AGENT = "pre_agent"
POINT_POST_AGENT = "post_agent"
POINT_PRE_MODEL_CALL = "pre_model_call"
POINT_POST_MODEL_CALL = "post_model_call"
POINT_ON_MODEL_ERROR = "on_model_error"
POINT_PRE_TOOL_CALL = "pre_tool_call"
POINT_POST_PARAMS_NORMALIZATION = "post_params_normalization"  # steps of one tool call, for hooks
POINT_POST_CORE_ACTION = "post_core_action"  # and policies that are bound to tools
POINT_POST_TOOL_CALL = "post_tool_call"
POINT_ON_TOOL_ERROR = "on_tool_error"
POINT_ON_INTERACTION = "on_interaction"
POINT_ON_COMPACTION = "on_compaction"
POINT_STOP = "stop"
POINT_SUBAGENT_START = "subagent_start"
POINT_SUBAGENT_STOP = "subagent_stop"
POINT_EVENT = "event"
POINT_CUSTOM = "custom"

# --- Span names of our own (followed by a space and the tool's name) ---------------------------
SPAN_APPROVAL_REQUEST = "otelhooks.approval.request"
SPAN_APPROVAL_WAIT = "otelhooks.approval.wait"

# --- Events (log records) ----------------------------------------------------------------------
EVENT_POLICY_DECISION = "otelhooks.policy.decision"
EVENT_SESSION_START = "otelhooks.session_start"
EVENT_SESSION_END = "otelhooks.session_end"
EVENT_USER_MESSAGE = "otelhooks.user_message"
EVENT_INTERACTION = "otelhooks.interaction"
EVENT_COMPACTION = "otelhooks.compaction"
EVENT_STOP = "otelhooks.stop"
EVENT_SUBAGENT_START = "otelhooks.subagent_start"
EVENT_SUBAGENT_STOP = "otelhooks.subagent_stop"
EVENT_RECOVERED = "otelhooks.recovered"
EVENT_REWRITTEN = "otelhooks.rewritten"
EVENT_WITHHELD = "otelhooks.withheld"
EVENT_RULE_UNMATCHED = "otelhooks.policy.rule.unmatched"
EVENT_MCP_TOOL_UNAPPROVED = "otelhooks.mcp.tool.unapproved"
EVENT_HOOK_LOG = "otelhooks.hook.log"
EVENT_GEN_AI_OPERATION_DETAILS = "gen_ai.client.inference.operation.details"
EVENT_GEN_AI_TOOL_CALL_DECISION = "gen_ai.tool.call.decision"
EVENT_GEN_AI_OPERATION_EXCEPTION = "gen_ai.client.operation.exception"

# --- Metrics -------------------------------------------------------------------------------------
METRIC_POLICY_DECISIONS = "otelhooks.policy.decisions"
METRIC_POLICY_DENIES = "otelhooks.policy.denies"
METRIC_POLICY_RULES = "otelhooks.policy.rules"
METRIC_POLICY_EVALUATIONS = "otelhooks.policy.evaluations"
METRIC_POLICY_EVALUATION_TIME = "otelhooks.policy.evaluation.time"
METRIC_POLICY_EVALUATION_DURATION = "otelhooks.policy.evaluation.duration"
METRIC_APPROVAL_WAIT_DURATION = "otelhooks.approval.wait.duration"
METRIC_APPROVAL_PENDING = "otelhooks.approval.pending"
METRIC_AUDIT_SPOOLED = "otelhooks.audit.spooled"
METRIC_ADAPTER_INFO = "otelhooks.adapter.info"
METRIC_CANDIDATE_FLIPS = "otelhooks.candidate.flips"
METRIC_COVERAGE_GAPS = "otelhooks.coverage.gaps"
METRIC_COST_USD = "otelhooks.cost.usd"
METRIC_COST_UNKNOWN = "otelhooks.cost.unknown"
METRIC_MCP_TOOLS_UNAPPROVED = "otelhooks.mcp.tools.unapproved"
METRIC_TOOL_CALLS = "otelhooks.tool.calls"
METRIC_TOOL_TIME = "otelhooks.tool.time"
METRIC_HOOK_DURATION = "otelhooks.hook.duration"
METRIC_HOOK_ERRORS = "otelhooks.hook.errors"
METRIC_HOOK_QUEUE_DROPPED = "otelhooks.hook.queue.dropped"
METRIC_GEN_AI_CLIENT_INFERENCE_DURATION = "gen_ai.client.inference.duration"
METRIC_GEN_AI_CLIENT_INFERENCE_TIME_TO_FIRST_CHUNK = "gen_ai.client.inference.time_to_first_chunk"
METRIC_GEN_AI_CLIENT_INFERENCE_TIME_PER_OUTPUT_CHUNK = (
    "gen_ai.client.inference.time_per_output_chunk"
)
METRIC_GEN_AI_CLIENT_INFERENCE_INPUT_TOKENS = "gen_ai.client.inference.operation.input_tokens"
METRIC_GEN_AI_CLIENT_INFERENCE_OUTPUT_TOKENS = "gen_ai.client.inference.operation.output_tokens"
METRIC_GEN_AI_CLIENT_OPERATION_DURATION = "gen_ai.client.operation.duration"  # the old names
METRIC_GEN_AI_CLIENT_OPERATION_TIME_TO_FIRST_CHUNK = "gen_ai.client.operation.time_to_first_chunk"
METRIC_GEN_AI_CLIENT_TOKEN_USAGE = "gen_ai.client.token.usage"
METRIC_GEN_AI_USAGE_INPUT_TOKENS = "gen_ai.client.inference.usage.input_tokens"
METRIC_GEN_AI_USAGE_OUTPUT_TOKENS = "gen_ai.client.inference.usage.output_tokens"
METRIC_GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS = (
    "gen_ai.client.inference.usage.cache_read.input_tokens"
)
METRIC_GEN_AI_USAGE_CACHE_WRITE_INPUT_TOKENS = (
    "gen_ai.client.inference.usage.cache_write.input_tokens"
)
METRIC_GEN_AI_USAGE_REASONING_OUTPUT_TOKENS = (
    "gen_ai.client.inference.usage.reasoning.output_tokens"
)
METRIC_GEN_AI_INVOKE_AGENT_DURATION = "gen_ai.invoke_agent.duration"
METRIC_GEN_AI_INVOKE_AGENT_INFERENCE_CALLS = "gen_ai.invoke_agent.inference_calls"
METRIC_GEN_AI_INVOKE_AGENT_TOOL_CALLS = "gen_ai.invoke_agent.tool_calls"
METRIC_GEN_AI_INVOKE_WORKFLOW_DURATION = "gen_ai.invoke_workflow.duration"
METRIC_GEN_AI_EXECUTE_TOOL_DURATION = "gen_ai.execute_tool.duration"
METRIC_MCP_CLIENT_OPERATION_DURATION = "mcp.client.operation.duration"
METRIC_MCP_SERVER_OPERATION_DURATION = "mcp.server.operation.duration"
METRIC_MCP_CLIENT_SESSION_DURATION = "mcp.client.session.duration"
METRIC_MCP_SERVER_SESSION_DURATION = "mcp.server.session.duration"
