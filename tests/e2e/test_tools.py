"""Tool calls and reasoning through the server, as the openai client reads them. A chat template that repeats a line
makes the model write it: the tests check how the server parses the line, not the model."""

import json

import openai
import pytest
from conftest import default_model, serving

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Weather of a city",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        },
    }
]
CALL = 'Sure. <tool_call>{"name": "get_weather", "arguments": {"city": "Paris"}}</tool_call>'


@pytest.fixture(scope="module")
def parrot(tmp_path_factory):
    template = tmp_path_factory.mktemp("tools") / "parrot.jinja"
    template.write_text("{% for i in range(9) %}{{ messages[-1]['content'] }}\n{% endfor %}")
    with (
        serving(
            default_model(),
            "--max-model-len",
            "2048",
            "--served-model-name",
            "smol",
            "--chat-template",
            str(template),
            "--tool-call-parser",
            "hermes",
            "--reasoning-parser",
            "qwen3",
            "--enable-auto-tool-choice",
        ) as server,
        openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0, timeout=120) as client,
    ):
        yield client


def ask(client, line, **fields):
    return client.chat.completions.create(
        model="smol", messages=[{"role": "user", "content": line}], temperature=0, max_tokens=80, stop=["\n"], **fields
    )


def test_a_call_and_its_answer_go_round(parrot, valid):
    answer = ask(parrot, CALL, tools=TOOLS)
    valid("CreateChatCompletionResponse", answer.model_dump(exclude_unset=True))
    choice = answer.choices[0]
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", "Sure.")
    [call] = choice.message.tool_calls
    assert (call.type, call.function.name, json.loads(call.function.arguments)) == (
        "function",
        "get_weather",
        {"city": "Paris"},
    )
    # The client sends the message back unchanged, followed by the result of the tool.
    history = [
        {"role": "user", "content": "x"},
        choice.message,
        {"role": "tool", "tool_call_id": call.id, "content": "It is warm."},
    ]
    again = parrot.chat.completions.create(
        model="smol", messages=history, tools=TOOLS, max_tokens=40, temperature=0, stop=["\n"]
    )
    assert again.choices[0].message.content == "It is warm."
    assert again.choices[0].finish_reason == "stop" and not again.choices[0].message.tool_calls


def test_a_streamed_call_is_the_same(parrot, valid):
    whole = ask(parrot, CALL, tools=TOOLS).choices[0].message
    content, calls, reasons = "", {}, []
    for chunk in ask(parrot, CALL, tools=TOOLS, stream=True):
        valid("CreateChatCompletionStreamResponse", chunk.model_dump(exclude_unset=True))
        choice = chunk.choices[0]
        content += choice.delta.content or ""
        for piece in choice.delta.tool_calls or []:
            call = calls.setdefault(piece.index, {"name": "", "arguments": ""})
            call["name"] += piece.function.name or ""
            call["arguments"] += piece.function.arguments or ""
        reasons.append(choice.finish_reason)
    assert content == whole.content
    assert calls == {0: {"name": "get_weather", "arguments": whole.tool_calls[0].function.arguments}}
    assert reasons[-1] == "tool_calls" and set(reasons[:-1]) == {None}


def test_the_clients_own_stream_helper_reads_it(parrot):
    with parrot.chat.completions.stream(
        model="smol",
        messages=[{"role": "user", "content": CALL}],
        temperature=0,
        max_tokens=80,
        tools=TOOLS,
        extra_body={"stop": ["\n"]},
    ) as stream:
        message = stream.get_final_completion().choices[0].message
    assert message.tool_calls[0].function.name == "get_weather"
    assert json.loads(message.tool_calls[0].function.arguments) == {"city": "Paris"}


@pytest.mark.parametrize("fields", [{}, {"tools": TOOLS, "tool_choice": "none"}])
def test_without_tools_the_markup_is_text(parrot, fields):
    choice = ask(parrot, CALL, **fields).choices[0]
    assert (choice.finish_reason, choice.message.content, choice.message.tool_calls) == ("stop", CALL, None)


def test_reasoning_has_a_field_of_its_own(parrot):
    line = "<think>It is in France.</think> France"
    message = ask(parrot, line).choices[0].message
    assert message.content == "France"
    assert message.reasoning_content == message.reasoning == "It is in France."
    content = reasoning = ""
    for chunk in ask(parrot, line, stream=True):
        content += chunk.choices[0].delta.content or ""
        reasoning += getattr(chunk.choices[0].delta, "reasoning_content", None) or ""
    assert (content, reasoning) == ("France", "It is in France.")


def test_a_call_cut_off_by_max_tokens_is_text(parrot):
    choice = parrot.chat.completions.create(
        model="smol", messages=[{"role": "user", "content": CALL}], temperature=0, max_tokens=12, tools=TOOLS
    ).choices[0]
    assert choice.finish_reason == "length" and not choice.message.tool_calls
    assert CALL.startswith(choice.message.content)


def test_logprobs_list_every_token_of_a_call(parrot):
    choice = ask(parrot, CALL, tools=TOOLS, logprobs=True).choices[0]
    assert "".join(token.token for token in choice.logprobs.content).startswith(CALL)
