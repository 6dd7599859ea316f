"""Tools as agents declare them, with the vendors' own clients: namespaces, free-text tools, provider-run tools, and
hundreds of tools; restrictions on callable tools; and a header that lists the ignored parts of a request."""

import json
import re

import anthropic
import httpx
import openai
import pytest
from conftest import default_model, serving, shared_data
from openapi import Validator

SHELL = {
    "type": "function",
    "name": "exec_command",
    "description": "Runs a command.",
    "strict": False,
    "parameters": {
        "type": "object",
        "properties": {"cmd": {"enum": ["ls", "pwd"]}},
        "required": ["cmd"],
        "additionalProperties": False,
    },
}
CLOSE = {
    "type": "function",
    "name": "close_agent",
    "description": "Closes an agent.",
    "strict": False,
    "parameters": {
        "type": "object",
        "properties": {"target": {"enum": ["a", "b"]}},
        "required": ["target"],
        "additionalProperties": False,
    },
}
TEAM = {
    "type": "namespace",
    "name": "team",
    "description": "Agents to work with.",
    "tools": [CLOSE, {**CLOSE, "name": "wait_agent"}],
}
PATCH = {
    "type": "custom",
    "name": "apply_patch",
    "description": "Edits files.",
    "format": {"type": "grammar", "syntax": "regex", "definition": "[a-z]{3,6}\\n"},
}
HOSTED = [
    {"type": "web_search", "external_web_access": False},
    {"type": "tool_search", "execution": "client", "description": "d", "parameters": {"type": "object"}},
    {"type": "image_generation"},
    {"type": "local_shell"},
    {"type": "mcp", "server_label": "s", "server_url": "http://127.0.0.1/"},
    {"type": "code_interpreter", "container": {"type": "auto"}},
    {"type": "file_search", "vector_store_ids": ["v"]},
    {"type": "computer_use_preview", "display_width": 1, "display_height": 1, "environment": "linux"},
]
# A request as Codex sends it: instructions in two developer messages, and all of its tools declared.
CODEX = {
    "model": "smol",
    "stream": True,
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "reasoning": {"summary": "auto"},
    "store": False,
    "include": ["reasoning.encrypted_content"],
    "prompt_cache_key": "k",
    "client_metadata": {"session_id": "s"},
    "max_output_tokens": 16,
    "tools": [SHELL, TEAM, HOSTED[0]],
    "input": [
        {
            "type": "message",
            "id": "msg_1",
            "role": "developer",
            "content": [{"type": "input_text", "text": "You are an agent."}],
        },
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "<skills></skills>"}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "<environment_context/>"}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Say hi."}]},
    ],
}
GREEDY = {"model": "smol", "temperature": 0, "max_output_tokens": 60}


@pytest.fixture(scope="module")
def client(server):
    with openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0, timeout=120) as made:
        try:
            made.responses.create(input="x", tools=[SHELL], tool_choice="required", **GREEDY)
        except openai.BadRequestError as error:
            if "no grammars" in str(error):
                pytest.skip("this build has no XGrammar: calls cannot be forced")
            raise
        yield made


@pytest.fixture(scope="module")
def conforms():
    data = shared_data()
    if data is None:
        return lambda name, value: None
    return Validator(data / "conformance/openai_openapi_responses.json")


def test_the_first_request_of_codex_is_answered(server):
    answer = httpx.post(server.url + "/v1/responses", json=CODEX, timeout=120)
    assert answer.status_code == 200, answer.text
    assert (
        "299 pagoda \"tools.2.type: a tool of the type 'web_search' is not run by this server"
        in answer.headers["warning"]
    )
    last = json.loads(answer.text.strip().splitlines()[-1].removeprefix("data: "))
    assert last["type"] in ("response.completed", "response.incomplete")
    assert [tool["type"] for tool in last["response"]["tools"]] == ["function", "namespace", "web_search"]


@pytest.mark.parametrize("tool", HOSTED, ids=lambda tool: tool["type"])
def test_what_a_provider_runs_is_left_out_unless_it_is_chosen(server, tool):
    def ask(path, **fields):
        return httpx.post(server.url + path, json={"model": "smol", **fields}, timeout=120)

    answer = ask("/v1/responses", input="x", max_output_tokens=1, tools=[SHELL, tool])
    assert answer.status_code == 200 and tool["type"] in answer.headers["warning"]
    alone = ask("/v1/responses", input="x", max_output_tokens=1, tools=[])
    assert (
        ask("/v1/responses", input="x", max_output_tokens=1, tools=[tool]).json()["usage"]["input_tokens"]
        == alone.json()["usage"]["input_tokens"]
    )
    for chosen in {"type": tool["type"]}, "required":
        refused = ask("/v1/responses", input="x", max_output_tokens=1, tools=[tool], tool_choice=chosen)
        assert refused.status_code == 400 and refused.json()["error"]["param"].startswith("tool_choice"), refused.text
    chat = ask("/v1/chat/completions", messages=[{"role": "user", "content": "x"}], max_tokens=1, tools=[tool])
    assert chat.status_code == 200 and tool["type"] in chat.headers["warning"]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_call_of_a_namespace_comes_with_it(client, conforms, stream):
    fields = dict(
        tools=[SHELL, TEAM, PATCH, *HOSTED],
        tool_choice={"type": "function", "namespace": "team", "name": "close_agent"},
        **GREEDY,
    )
    answer = client.responses.create(input="Close a.", stream=stream, **fields)
    if stream:
        *events, last = answer
        for event in events:
            conforms("ResponseStreamEvent", event)
        [done] = [event.item for event in events if event.type == "response.output_item.done"]
        answer = last.response
        assert done.namespace == "team" and done.name == "close_agent"
    conforms("Response", answer)
    [call] = answer.output
    assert (call.type, call.name, call.namespace) == ("function_call", "close_agent", "team") and json.loads(
        call.arguments
    )["target"] in "ab"
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "closed"}
    plain = {"model": "smol", "max_output_tokens": 4, "temperature": 0, "tools": fields["tools"]}
    by_hand = client.responses.create(
        input=[{"role": "user", "content": "Close a."}, call.model_dump(exclude_none=True), result], **plain
    )
    kept = client.responses.create(input=[result], previous_response_id=answer.id, **plain)
    assert by_hand.usage.input_tokens == kept.usage.input_tokens > answer.usage.input_tokens


@pytest.mark.parametrize(
    "syntax, definition", [("regex", "[a-z"), ("regex", "a(?=b)"), ("lark", "start: nothing"), ("lark", "start: (")]
)
def test_a_custom_tool_whose_grammar_cannot_be_compiled_is_refused_by_its_name(client, syntax, definition):
    broken = {
        "type": "custom",
        "name": "edit_file",
        "format": {"type": "grammar", "syntax": syntax, "definition": definition},
    }
    with pytest.raises(openai.BadRequestError) as error:
        client.responses.create(
            input="Edit it.", tools=[SHELL, broken], tool_choice={"type": "custom", "name": "edit_file"}, **GREEDY
        )
    assert "'edit_file'" in str(error.value) and error.value.param == "tools", error.value


def test_a_custom_tool_is_called_with_a_text(client, conforms):
    fields = dict(tools=[SHELL, PATCH], tool_choice={"type": "custom", "name": "apply_patch"}, **GREEDY)
    whole = client.responses.create(input="Patch it.", **fields)
    conforms("Response", whole)
    [call] = whole.output
    assert (call.type, call.name) == ("custom_tool_call", "apply_patch")
    assert call.input.endswith("\n") and call.input.strip().isalpha() and 3 <= len(call.input.strip()) <= 6, call.input
    text, ends = "", []
    for event in client.responses.create(input="Patch it.", stream=True, **fields):
        conforms("ResponseStreamEvent", event)
        if event.type == "response.custom_tool_call_input.delta":
            text += event.delta
        if event.type == "response.custom_tool_call_input.done":
            ends.append(event.input)
    assert [text] == ends == [call.input]
    again = client.responses.create(
        input=[
            {"role": "user", "content": "Patch it."},
            call.model_dump(exclude_none=True),
            {"type": "custom_tool_call_output", "call_id": call.call_id, "output": "done"},
        ],
        **{**fields, "tool_choice": "auto"},
    )
    assert again.usage.input_tokens > whole.usage.input_tokens
    chat = client.chat.completions.create(
        model="smol",
        temperature=0,
        max_tokens=60,
        messages=[{"role": "user", "content": "Patch it."}],
        tools=[
            {
                "type": "custom",
                "custom": {
                    "name": "p",
                    "format": {"type": "grammar", "grammar": {"syntax": "regex", "definition": "[a-z]{3}"}},
                },
            }
        ],
        tool_choice={"type": "custom", "custom": {"name": "p"}},
    )
    [call] = chat.choices[0].message.tool_calls
    assert call.type == "custom" and call.custom.name == "p" and len(call.custom.input) == 3
    chat = client.chat.completions.create(
        model="smol",
        max_tokens=4,
        messages=[
            {"role": "user", "content": "Patch it."},
            {"role": "assistant", "content": None, "tool_calls": [call.model_dump(exclude_none=True)]},
            {"role": "tool", "tool_call_id": call.id, "content": "done"},
        ],
    )
    assert chat.usage.completion_tokens


@pytest.mark.parametrize("seed", range(3))
def test_a_text_is_held_to_its_grammar(client, seed):
    """The text contains line ends and quotes, which are escaped in the call that the model writes."""
    lark = 'start: "*** Begin" LF line+ "*** \\"End\\""\nline: ("+" | "-") /[a-z]{1,4}/ LF\n%import common.LF\n'
    fields = {**GREEDY, "temperature": 1, "max_output_tokens": 200}
    answer = client.responses.create(
        input="Patch it.",
        tools=[{"type": "custom", "name": "edit", "format": {"type": "grammar", "syntax": "lark", "definition": lark}}],
        tool_choice="required",
        parallel_tool_calls=False,
        extra_body={"seed": seed},
        **fields,
    )
    if answer.status == "completed":
        [call] = answer.output
        assert re.fullmatch('\\*\\*\\* Begin\n([+-][a-z]{1,4}\n)+\\*\\*\\* "End"', call.input), call.input


def test_only_allowed_tools_are_called(client):
    tools = [SHELL, TEAM, PATCH]
    answer = client.responses.create(
        input="x",
        tools=tools,
        tool_choice={"type": "allowed_tools", "mode": "required", "tools": [{"type": "custom", "name": "apply_patch"}]},
        **GREEDY,
    )
    assert {item.name for item in answer.output} == {"apply_patch"}
    functions = [
        {"type": "function", "function": {"name": name, "parameters": CLOSE["parameters"]}} for name in ("one", "two")
    ]
    for seed in range(3):
        chat = client.chat.completions.create(
            model="smol",
            temperature=1,
            seed=seed,
            max_tokens=60,
            messages=[{"role": "user", "content": "x"}],
            tools=functions,
            tool_choice={
                "type": "allowed_tools",
                "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "two"}}]},
            },
        )
        assert {call.function.name for call in chat.choices[0].message.tool_calls} == {"two"}
    with pytest.raises(openai.BadRequestError) as error:
        client.responses.create(
            input="x",
            tools=tools,
            tool_choice={"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "no"}]},
            **GREEDY,
        )
    assert error.value.param == "tool_choice.tools.0.name"


def test_tools_of_anthropic_are_left_out_and_their_blocks_are_text(server):
    body = {
        "model": "smol",
        "max_tokens": 4,
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "Some words."}},
                    {"type": "text", "text": "Sum up."},
                ],
            },
            {
                "role": "assistant",
                "content": [
                    {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "q"}},
                    {
                        "type": "web_search_tool_result",
                        "tool_use_id": "s",
                        "content": [
                            {
                                "type": "web_search_result",
                                "title": "A title",
                                "url": "http://x",
                                "encrypted_content": "z",
                            }
                        ],
                    },
                ],
            },
            {"role": "user", "content": "Go on."},
        ],
        "tools": [
            {"type": "web_search_20250305", "name": "web_search"},
            {"type": "bash_20250124", "name": "bash"},
            {"type": "memory_20250818", "name": "memory"},
        ],
    }
    answer = httpx.post(server.url + "/v1/messages", json=body, timeout=120)
    assert answer.status_code == 200, answer.text
    assert "web_search_20250305" in answer.headers["warning"]
    with anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0, timeout=120) as client:
        message = client.messages.create(
            model="smol",
            max_tokens=100,
            messages=[{"role": "user", "content": "List the files."}],
            tools=[body["tools"][1]],
            tool_choice={"type": "tool", "name": "bash"},
            extra_body={"temperature": 0},
        )
        assert message.content[0].name == "bash" and set(message.content[0].input) <= {"command", "restart"}
        with pytest.raises(anthropic.BadRequestError, match="web_search"):
            client.messages.create(
                model="smol",
                max_tokens=1,
                messages=[{"role": "user", "content": "x"}],
                tools=body["tools"],
                tool_choice={"type": "tool", "name": "web_search"},
            )


def test_hundreds_of_tools_and_a_hundred_thousand_keys(server):
    properties = {f"p{i}": {"type": "string"} for i in range(100)}
    tools = [
        {
            "type": "function",
            "function": {"name": f"tool_{i}", "parameters": {"type": "object", "properties": properties}},
        }
        for i in range(490)
    ]
    plain = {"model": "smol", "max_tokens": 1, "messages": [{"role": "user", "content": "x"}], "tool_choice": "none"}
    assert (
        httpx.post(server.url + "/v1/chat/completions", json={**plain, "tools": tools}, timeout=120).status_code == 200
    )
    deep = {"type": "string"}
    for _ in range(40):
        deep = {"type": "object", "properties": {"x": deep}}
    answer = httpx.post(
        server.url + "/v1/chat/completions",
        json={**plain, "tools": [{"type": "function", "function": {"name": "f", "parameters": deep}}]},
        timeout=120,
    )
    assert answer.status_code == 200, answer.text
    nested = "x"
    for _ in range(200):
        nested = [nested]
    answer = httpx.post(server.url + "/v1/chat/completions", json={**plain, "metadata": nested}, timeout=120)
    assert answer.status_code == 400 and "128" in answer.text


def test_one_of_many_tools_is_forced(tmp_path):
    """With a template that renders only tool names, since the schemas would exceed the context."""
    names = tmp_path / "names.jinja"
    names.write_text(
        "{% for t in tools or [] %}{{ t.function.name }} {{ t.function.description }} {% endfor %}"
        "{% for m in messages %}{{ m.content }}\n{% endfor %}"
    )
    tools = [
        {
            "type": "function",
            "function": {
                "name": f"tool_{i}",
                "description": "d",
                "parameters": {
                    "type": "object",
                    "properties": {
                        f"argument_{j}_of_{i}": {"type": "string", "description": "d" * 80} for j in range(6)
                    },
                },
            },
        }
        for i in range(120)
    ]
    with serving(
        default_model(),
        "--chat-template",
        names,
        "--tool-call-parser",
        "hermes",
        "--max-model-len",
        "4096",
        "--served-model-name",
        "smol",
    ) as server:
        answer = httpx.post(
            server.url + "/v1/chat/completions",
            timeout=120,
            json={
                "model": "smol",
                "max_tokens": 200,
                "messages": [{"role": "user", "content": "x"}],
                "tools": tools,
                "tool_choice": {"type": "function", "function": {"name": "tool_77"}},
            },
        )
        assert answer.status_code == 200, answer.text
        assert answer.json()["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "tool_77"


def test_a_conversation_that_is_too_long_loses_its_oldest_messages(client):
    items = [
        {"role": role, "content": f"{i} " + "word " * 120} for i in range(12) for role in ("user", "assistant")
    ] + [{"role": "user", "content": "Last."}]
    with pytest.raises(openai.BadRequestError):
        client.responses.create(input=items, **GREEDY)
    answer = client.responses.with_raw_response.create(
        input=items, truncation="auto", instructions="Be brief.", **GREEDY
    )
    got = answer.parse()
    assert got.truncation == "auto" and 1500 < got.usage.input_tokens <= 2048 - 60
    assert "oldest messages" in answer.headers["warning"]
    short = client.responses.create(input="x", truncation="auto", **GREEDY)
    assert short.usage.input_tokens == client.responses.create(input="x", **GREEDY).usage.input_tokens


def test_an_empty_list_is_answered(client):
    assert client.responses.create(input=[], instructions="You are brief.", **GREEDY).status in (
        "completed",
        "incomplete",
    )
    assert client.responses.create(input=[], **GREEDY).usage.input_tokens


def test_each_sdk_reads_the_list_of_models(server):
    with openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0) as client:
        assert [(model.id, model.object) for model in client.models.list()] == [("smol", "model")]
    with anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0) as client:
        page = client.models.list()
        assert (page.first_id, page.last_id, page.has_more) == ("smol", "smol", False)
        [model] = page.data
        assert (model.type, model.id, model.display_name, model.max_input_tokens) == (
            "model",
            "smol",
            "smol",
            2048,
        ) and model.created_at.year > 2000
        assert client.models.retrieve("smol").id == "smol"


def test_claude_code_is_told_that_a_prompt_is_too_long_in_words_it_knows(server):
    for words in 3000, 40000:  # short enough to be counted, and too long
        answer = httpx.post(
            server.url + "/v1/messages",
            timeout=120,
            json={"model": "smol", "max_tokens": 4, "messages": [{"role": "user", "content": "word " * words}]},
        )
        error = answer.json()["error"]
        assert answer.status_code == 400 and error["type"] == "invalid_request_error"
        length, limit = re.fullmatch(r"prompt is too long: (\d+) tokens > (\d+) maximum", error["message"]).groups()
        assert int(length) > int(limit) == 2048


def test_a_budget_of_thinking_refuses_nothing(server):
    thinking = {"model": "smol", "max_tokens": 2, "messages": [{"role": "user", "content": "x"}]}
    for fields in {"thinking": {"type": "enabled", "budget_tokens": 1024}}, {"thinking": {"type": "between_tools"}}:
        assert httpx.post(server.url + "/v1/messages", json={**thinking, **fields}, timeout=120).status_code == 200
    for fields in (
        {"thinking": {"type": "disabled"}},
        {"reasoning": {"enabled": False, "effort": "low", "max_tokens": 9}},
    ):
        answer = httpx.post(server.url + "/v1/chat/completions", json={**thinking, **fields}, timeout=120)
        assert answer.status_code == 200 and answer.json()["usage"]["completion_tokens_details"] == {
            "reasoning_tokens": 0
        }


PIXEL = "data:image/png;base64,AA=="
NOTE = "[image left out: this model supports text only]"
IMAGES = {
    "/v1/chat/completions": {"type": "image_url", "image_url": {"url": PIXEL}},
    "/v1/responses": {"type": "input_image", "image_url": PIXEL},
    "/v1/messages": {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}},
}


def after_a_call(path, result):
    """Returns a conversation in which a tool has returned these parts."""
    asks = {"role": "user", "content": "Look."}
    if path == "/v1/chat/completions":
        call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        turn = {"role": "assistant", "tool_calls": [call]}
        return {"messages": [asks, turn, {"role": "tool", "tool_call_id": "c", "content": result}], "max_tokens": 4}
    if path == "/v1/responses":
        call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
        output = {"type": "function_call_output", "call_id": "c", "output": result}
        return {"input": [asks, call, output], "max_output_tokens": 4}
    turn = {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f", "input": {}}]}
    given = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": result}]}
    return {"messages": [asks, turn, given], "max_tokens": 4}


@pytest.mark.parametrize("path", IMAGES)
def test_an_agent_goes_on_after_a_tool_gave_an_image(server, path):
    """The prompt mentions that there was an image, and a header informs the client."""

    def ask(first):
        text = {"type": "input_text" if path == "/v1/responses" else "text"}
        body = after_a_call(path, [first or {**text, "text": NOTE}, {**text, "text": "a.png"}])
        answer = httpx.post(server.url + path, json={"model": "smol", **body})
        assert answer.status_code == 200, answer.text
        usage = answer.json()["usage"]
        names = ("prompt_tokens", "input_tokens", "cache_read_input_tokens")
        return answer, sum(usage.get(name, 0) for name in names)

    answer, tokens = ask(IMAGES[path])
    assert "this model supports text only" in answer.headers["warning"]
    plain, expected = ask(None)
    assert tokens == expected and "warning" not in plain.headers
