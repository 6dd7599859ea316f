"""The second turn of an agent finds the first one in the prefix cache, for the request formats of different agents and
templates that allow system messages anywhere, only at the beginning, or not at all."""

import json

import httpx
import pytest
from conftest import default_model, serving

CALLS = """{% for call in m.tool_calls or [] %}<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>{% endfor %}"""
ANYWHERE = (
    """{% for tool in tools or [] %}{{ tool | tojson }}
{% endfor %}{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}"""
    + CALLS
    + """<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
)
FIRST = ANYWHERE.replace(
    "{% for m in messages %}",
    """{% for m in messages %}
{%- if m.role == 'system' and not loop.first %}{{ raise_exception('System message must be at the beginning.') }}{% endif
%}""",
)
NONE = ANYWHERE.replace(
    "{% for m in messages %}",
    """{% for m in messages %}
{%- if m.role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}""",
)
SYSTEM = " ".join(f"Rule {i}: read the file before you write it, and say what you did." for i in range(60))
TASK, NOTE = "Read notes.txt and tell me what it says.", "The folder has two files."
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
FUNCTION = {"name": "read_file", "description": "Reads a file", "parameters": SCHEMA}
ARGUMENTS = json.dumps({"path": "notes.txt"})


@pytest.fixture(scope="module", params=[ANYWHERE, FIRST, NONE], ids=["anywhere", "first", "none"])
def house(request, tmp_path_factory):
    template = tmp_path_factory.mktemp("cache") / "chat.jinja"
    template.write_text(request.param)
    with (
        serving(
            default_model(), "--max-model-len", "2048", "--served-model-name", "smol", "--chat-template", str(template)
        ) as server,
        httpx.Client(base_url=server.url, timeout=120) as client,
    ):
        yield client


def claude_code(http, turn, session):
    """The billing line differs in each session; a system message follows the first turn."""
    messages = [
        {"role": "user", "content": [{"type": "text", "text": TASK, "cache_control": {"type": "ephemeral"}}]},
        {"role": "system", "content": NOTE},
    ]
    if turn:
        messages += [
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "I read it.", "signature": "c2ln"},
                    {"type": "text", "text": "I look."},
                    {"type": "tool_use", "id": "toolu_1", "name": "read_file", "input": {"path": "notes.txt"}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "toolu_1",
                        "content": [{"type": "text", "text": "Buy bread."}],
                        "cache_control": {"type": "ephemeral"},
                    }
                ],
            },
        ]
    system = [
        {
            "type": "text",
            "text": f"x-anthropic-billing-header: cc_version=2.1.327.{session}; cc_entrypoint=cli; cch={session};",
        },
        {"type": "text", "text": "You are an agent.", "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": SYSTEM, "cache_control": {"type": "ephemeral"}},
    ]
    usage = (
        http.post(
            "/v1/messages?beta=true",
            json={
                "model": "smol",
                "max_tokens": 2,
                "system": system,
                "messages": messages,
                "metadata": {"user_id": session},
                "tools": [{"name": "read_file", "description": "Reads a file", "input_schema": SCHEMA}],
            },
        )
        .raise_for_status()
        .json()["usage"]
    )
    return usage["input_tokens"] + usage["cache_read_input_tokens"], usage["cache_read_input_tokens"]


def codex(http, turn, session):
    """Two developer messages; a turn is sent back as a call, a message and an output."""
    items = [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": SYSTEM}]},
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": NOTE}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": TASK}]},
    ]
    if turn:
        items += [
            {"type": "reasoning", "summary": [], "encrypted_content": None},
            {"type": "function_call", "call_id": "c1", "name": "read_file", "arguments": ARGUMENTS},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
            {"type": "function_call_output", "call_id": "c1", "output": "Buy bread."},
        ]
    usage = (
        http.post(
            "/v1/responses",
            json={
                "model": "smol",
                "input": items,
                "tools": [{"type": "function", **FUNCTION, "strict": False}],
                "tool_choice": "auto",
                "store": False,
                "include": ["reasoning.encrypted_content"],
                "prompt_cache_key": session,
                "max_output_tokens": 2,
            },
        )
        .raise_for_status()
        .json()["usage"]
    )
    return usage["input_tokens"], usage["input_tokens_details"]["cached_tokens"]


def chat(http, messages):
    usage = (
        http.post(
            "/v1/chat/completions",
            json={
                "model": "smol",
                "messages": messages,
                "max_tokens": 2,
                "tools": [{"type": "function", "function": FUNCTION}],
            },
        )
        .raise_for_status()
        .json()["usage"]
    )
    return usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]


def openai_agents(http, turn, session):
    """Calls have no content."""
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": TASK}]
    if turn:
        messages += [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "read_file", "arguments": ARGUMENTS}}
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "Buy bread."}]},
        ]
    return chat(http, messages)


def pydantic_ai(http, turn, session):
    """Several system messages, and reasoning in addition to the text."""
    messages = [
        {"role": "system", "content": SYSTEM},
        {"role": "system", "content": NOTE},
        {"role": "user", "content": TASK},
    ]
    if turn:
        messages += [
            {"role": "assistant", "content": "I look.", "reasoning_content": "I read it."},
            {"role": "user", "content": "Go on."},
        ]
    return chat(http, messages)


@pytest.mark.parametrize("agent", [claude_code, codex, openai_agents, pydantic_ai])
def test_the_second_turn_is_cached(house, agent):
    first, _ = agent(house, 0, "8c9")
    second, cached = agent(house, 1, "8c9")
    assert second > first > 900
    assert cached >= 0.95 * second, (first, second, cached)
    # Another session with the same system prompt.
    other, shared = agent(house, 0, "afe")
    assert other == first and shared >= 0.95 * other
