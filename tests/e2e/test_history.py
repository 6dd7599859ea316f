"""Earlier turns that clients send back: whatever a model has written, the conversation can continue."""

import json

import httpx
import pytest
from conftest import default_model, serving

# Calls, results and null contents as Qwen 3's template renders them, and its errors.
TEMPLATE = """
{%- for tool in tools or [] %}{{ tool | tojson }}{% endfor %}
{%- for m in messages %}
{%- if m.role == 'system' and not loop.first %}{{ raise_exception('System message must be at the beginning.') }}
{%- elif m.role not in ['system', 'user', 'assistant', 'tool'] %}{{ raise_exception('Unexpected message role.') }}{% endif %}<|im_start|>{{ m.role }}
{{ m.content }}{% for call in m.tool_calls or [] %}<tool_call>
{"name": "{{ call.function.name }}", "arguments": {% if call.function.arguments is string %}{{ call.function.arguments }}{% else %}{{ call.function.arguments | tojson }}{% endif %}}
</tool_call>{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
# The same for a template that iterates over arguments.
WALKS = TEMPLATE.replace(
    "{% if call.function.arguments is string %}{{ call.function.arguments }}{% else %}{{ call.function.arguments |"
    " tojson }}{% endif %}",
    "{% for name, value in call.function.arguments.items() %}{{ name }}={{ value }}{% endfor %}",
)
BROKEN = [
    '{"path": "no',
    '{"path": "a", "path": "b"}',
    '{"size": NaN}',
    '{"text": "a\nb"}',
    '{"text": "\\ud83d"}',
    "[1, 2]",
    "null",
    "just text",
    "",
]
TOOL = {
    "name": "write_file",
    "description": "Writes a file.",
    "parameters": {
        "type": "object",
        "properties": {"path": {"type": "string"}, "text": {"type": "string"}},
        "required": ["path", "text"],
    },
}


@pytest.fixture(scope="module", params=[TEMPLATE, WALKS], ids=["prints", "walks"])
def house(request, tmp_path_factory):
    template = tmp_path_factory.mktemp("history") / "chat.jinja"
    template.write_text(request.param)
    with (
        serving(
            default_model(),
            "--max-model-len",
            "1024",
            "--served-model-name",
            "smol",
            "--chat-template",
            str(template),
            "--tool-call-parser",
            "hermes",
            "--trust-request-chat-template",
        ) as server,
        httpx.Client(base_url=server.url, timeout=120) as client,
    ):
        yield client


def prompt_of(http, messages, **more):
    tokens = http.post("/tokenize", json={"messages": messages, **more})
    assert tokens.status_code == 200, tokens.text
    return http.post("/detokenize", json={"tokens": tokens.json()["tokens"]}).json()["prompt"]


@pytest.mark.parametrize("arguments", BROKEN)
def test_arguments_that_are_no_object_are_taken_back(house, arguments):
    call = {"id": "c1", "type": "function", "function": {"name": "write_file", "arguments": arguments}}
    chat = {
        "messages": [
            {"role": "user", "content": "Go."},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "bad arguments"},
        ],
        "max_tokens": 2,
    }
    responses = {
        "input": [
            {"role": "user", "content": "Go."},
            {"type": "function_call", "call_id": "c1", "name": "write_file", "arguments": arguments},
            {"type": "function_call_output", "call_id": "c1", "output": "bad arguments"},
        ],
        "max_output_tokens": 2,
    }
    ollama = {
        "messages": [
            chat["messages"][0],
            {"role": "assistant", "content": "", "tool_calls": [{"function": call["function"]}]},
            chat["messages"][2],
        ],
        "stream": False,
        "options": {"num_predict": 2},
    }
    for path, body in ("/v1/chat/completions", chat), ("/v1/responses", responses), ("/api/chat", ollama):
        answer = house.post(path, json={"model": "smol", **body})
        assert answer.status_code == 200, (path, answer.text)
    prompt = prompt_of(house, chat["messages"])
    assert "None" not in prompt and "bad arguments" in prompt
    if '"arguments": ' + arguments in prompt or not arguments:
        return
    assert "\nwrite_file" not in prompt and '"write_file", "arguments": ' in prompt


def test_what_was_cut_and_kept_goes_on(house):
    function = {"type": "function", **TOOL}
    first = house.post(
        "/v1/responses",
        json={
            "model": "smol",
            "input": "Write a poem about the sea to a file.",
            "tools": [function],
            "tool_choice": "required",
            "max_output_tokens": 24,
            "temperature": 0,
        },
    ).json()
    if "error" in first and first["error"]:
        pytest.skip("this build has no XGrammar: calls cannot be forced")
    assert first["status"] == "incomplete"
    outputs = [
        {"type": "function_call_output", "call_id": item["call_id"], "output": "bad JSON"}
        for item in first["output"]
        if item["type"] == "function_call"
    ]
    second = house.post(
        "/v1/responses",
        json={
            "model": "smol",
            "previous_response_id": first["id"],
            "input": outputs or "Go on.",
            "tools": [function],
            "max_output_tokens": 4,
        },
    )
    assert second.status_code == 200, second.text


def test_the_order_of_codex_is_one_turn(house):
    user, call = (
        {"role": "user", "content": "hi"},
        {
            "type": "function_call",
            "call_id": "c",
            "name": "f",
            "arguments": "{}",
        },
    )
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]}
    thought, output = (
        {"type": "reasoning", "summary": []},
        {
            "type": "function_call_output",
            "call_id": "c",
            "output": "r",
        },
    )
    used = set()
    for items in [user, said, call, output], [user, call, said, output], [user, thought, call, thought, said, output]:
        answer = house.post("/v1/responses", json={"model": "smol", "input": items, "max_output_tokens": 2})
        assert answer.status_code == 200, answer.text
        used.add(answer.json()["usage"]["input_tokens"])
    assert len(used) == 1
    for items in (
        [user, call, {**call, "call_id": "d"}, output, {**output, "call_id": "d"}],
        [
            user,
            call,
            output,
            said,
            user,
        ],
    ):
        assert (
            house.post("/v1/responses", json={"model": "smol", "input": items, "max_output_tokens": 2}).status_code
            == 200
        )


def test_every_instruction_is_in_the_prompt(house):
    text = [{"type": "text", "text": "FIRST"}, {"type": "text", "text": "SECOND"}]
    for messages in (
        [{"role": "developer", "content": text}, {"role": "user", "content": "hi"}],
        [
            {"role": "system", "content": "FIRST"},
            {"role": "developer", "content": "SECOND"},
            {"role": "user", "content": "hi"},
        ],
        [
            {"role": "system", "content": "FIRST"},
            {"role": "user", "content": "hi"},
            {"role": "system", "content": "SECOND"},
        ],
    ):
        prompt = prompt_of(house, messages)
        assert 0 <= prompt.find("FIRST") < prompt.find("SECOND")
    claude = {
        "model": "smol",
        "max_tokens": 2,
        "system": text,
        "messages": [{"role": "user", "content": "hi"}, {"role": "system", "content": "THIRD"}],
    }
    answer = house.post("/v1/messages", json=claude)
    assert answer.status_code == 200, answer.text
    assert (
        answer.json()["usage"]["input_tokens"] + answer.json()["usage"]["cache_read_input_tokens"]
        == house.post("/v1/messages/count_tokens", json={k: v for k, v in claude.items() if k != "max_tokens"}).json()[
            "input_tokens"
        ]
    )


def test_a_request_may_bring_a_template_of_its_own(house):
    template = (
        "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}[{{ m.content"
        " }}]{% endfor %}"
    )
    prompt = prompt_of(
        house, [{"role": "system", "content": "FIRST"}, {"role": "user", "content": "hi"}], chat_template=template
    )
    assert prompt == "[FIRST\n\nhi]", json.dumps(prompt)
