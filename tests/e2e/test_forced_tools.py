"""Tool calls constrained by a grammar: tool_choice required and named, strict arguments, one call or several, streamed
as they are generated; and limits on reasoning. Neither the default model nor the random one knows about tools."""

import json

import httpx
import jsonschema
import openai
import pytest
from conftest import serving
from small_model import write_small_model

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather of a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "maxLength": 20}, "unit": {"enum": ["C", "F"]}},
            "required": ["city", "unit"],
        },
    },
}
ADD = {
    "type": "function",
    "function": {
        "name": "add",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {
                "a": {"type": "integer", "minimum": 0, "maximum": 99},
                "b": {"type": "integer", "minimum": 0, "maximum": 99},
            },
            "required": ["a", "b"],
            "additionalProperties": False,
        },
    },
}
NOW = {"type": "function", "function": {"name": "now"}}
SCHEMAS = {tool["function"]["name"]: tool["function"].get("parameters", {"const": {}}) for tool in (WEATHER, ADD, NOW)}


@pytest.fixture(scope="module")
def client(server):
    with openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0, timeout=120) as made:
        try:
            ask(made, tools=[NOW], tool_choice="required")
        except openai.BadRequestError as error:
            if "no grammars" in str(error):
                pytest.skip("this build has no XGrammar: forced calls are not tested")
            raise
        yield made


def ask(client, text="What is the weather in Paris?", **fields):
    return client.chat.completions.create(
        **{
            "model": "smol",
            "messages": [{"role": "user", "content": text}],
            "temperature": 0,
            "max_tokens": 200,
            **fields,
        }
    )


def check(call):
    assert call.type == "function" and call.id
    jsonschema.validate(json.loads(call.function.arguments), SCHEMAS[call.function.name])


def test_required_calls_one_of_the_tools(client, valid):
    for seed in range(4):
        answer = ask(
            client, tools=[WEATHER, ADD, NOW], tool_choice="required", temperature=1, seed=seed, max_tokens=400
        )
        valid("CreateChatCompletionResponse", answer.model_dump(exclude_unset=True))
        choice = answer.choices[0]
        assert choice.message.tool_calls and not choice.message.content
        if choice.finish_reason != "length":
            assert choice.finish_reason == "tool_calls"
            for call in choice.message.tool_calls:
                check(call)


@pytest.mark.parametrize("tool", [WEATHER, ADD, NOW])
def test_named_calls_this_one_once(client, tool):
    name = tool["function"]["name"]
    choice = ask(
        client, tools=[WEATHER, ADD, NOW], tool_choice={"type": "function", "function": {"name": name}}
    ).choices[0]
    [call] = choice.message.tool_calls
    assert call.function.name == name and choice.finish_reason == "tool_calls"
    check(call)


@pytest.mark.parametrize("stream", [False, True])
def test_the_same_call_again_ends_the_answer(client, stream):
    """A tool without arguments can be called in only one way, which small models would repeat until max_tokens."""
    for fields in {"temperature": 0}, {"temperature": 1, "seed": 3}:
        answer = ask(client, tools=[NOW], tool_choice="required", max_tokens=400, stream=stream, **fields)
        if stream:
            chunks = [chunk.choices[0] for chunk in answer if chunk.choices]
            pieces = [piece for chunk in chunks for piece in chunk.delta.tool_calls or []]
            assert {piece.index for piece in pieces} == {0} and chunks[-1].finish_reason == "tool_calls", chunks
            assert json.loads("".join(piece.function.arguments or "" for piece in pieces)) == {}
            continue
        [call] = answer.choices[0].message.tool_calls
        check(call)
        assert answer.choices[0].finish_reason == "tool_calls" and answer.usage.completion_tokens < 200, answer


def test_calls_are_never_twice_the_same_in_a_row(client):
    tool = {
        "type": "function",
        "function": {
            "name": "coin",
            "parameters": {
                "type": "object",
                "properties": {"side": {"enum": ["heads", "tails"]}},
                "required": ["side"],
            },
        },
    }
    for seed in range(6):
        choice = ask(client, tools=[tool], tool_choice="required", temperature=1.5, seed=seed, max_tokens=400).choices[
            0
        ]
        told = [json.loads(call.function.arguments)["side"] for call in choice.message.tool_calls[:-1]]
        assert all(one != next_one for one, next_one in zip(told, told[1:])), told


def test_what_is_left_out_of_a_schema_is_in_a_warning(client):
    tool = {
        "type": "function",
        "function": {
            "name": "tag",
            "parameters": {
                "type": "object",
                "properties": {
                    "names": {
                        "type": "array",
                        "items": {"type": "string", "maxLength": 4},
                        "uniqueItems": True,
                        "maxItems": 2,
                    }
                },
                "required": ["names"],
            },
        },
    }
    answer = client.chat.completions.with_raw_response.create(
        model="smol",
        messages=[{"role": "user", "content": "Tag it."}],
        tools=[tool],
        tool_choice="required",
        max_tokens=200,
        temperature=0,
    )
    assert "uniqueItems" in answer.headers["warning"], answer.headers
    assert "names" in json.loads(answer.parse().choices[0].message.tool_calls[0].function.arguments)


def test_one_call_where_parallel_ones_are_not_wanted(client):
    for seed in range(4):
        choice = ask(
            client, tools=[ADD, NOW], tool_choice="required", parallel_tool_calls=False, temperature=1, seed=seed
        ).choices[0]
        [call] = choice.message.tool_calls
        check(call)


def test_arguments_stream_while_they_are_written(client, valid):
    fields = {"tools": [WEATHER], "tool_choice": "required", "parallel_tool_calls": False}
    whole = ask(client, **fields).choices[0].message.tool_calls[0].function
    name, pieces, content = "", [], ""
    for chunk in ask(client, stream=True, **fields):
        valid("CreateChatCompletionStreamResponse", chunk.model_dump(exclude_unset=True))
        delta = chunk.choices[0].delta
        content += delta.content or ""
        for piece in delta.tool_calls or []:
            assert piece.index == 0
            name += piece.function.name or ""
            if piece.function.arguments:
                pieces.append(piece.function.arguments)
    assert (name, "".join(pieces), content) == ("get_weather", whole.arguments, "")
    assert len(pieces) > 3, "not told while they were written"


def test_openai_parses_calls_into_pydantic_models(client):
    from pydantic import BaseModel

    class Add(BaseModel):
        a: int
        b: int

    parsed = client.chat.completions.parse(
        model="smol",
        messages=[{"role": "user", "content": "What is 2 + 3?"}],
        temperature=0,
        tools=[openai.pydantic_function_tool(Add, name="add")],
        tool_choice="required",
        parallel_tool_calls=False,
        max_tokens=100,
    )
    [call] = parsed.choices[0].message.tool_calls
    assert isinstance(call.function.parsed_arguments, Add)


def agent_loop(client, seed):
    """Runs three calls with results, and a final message."""
    messages = [{"role": "user", "content": "Add some numbers with the tool, then say what you found."}]
    for _ in range(3):
        choice = ask(
            client,
            messages=messages,
            tools=[ADD],
            tool_choice="required",
            parallel_tool_calls=False,
            seed=seed,
            temperature=1,
            max_tokens=100,
        ).choices[0]
        [call] = choice.message.tool_calls
        check(call)
        got = json.loads(call.function.arguments)
        messages += [
            choice.message.model_dump(exclude_none=True),
            {"role": "tool", "tool_call_id": call.id, "content": str(got["a"] + got["b"])},
        ]
    assert ask(client, messages=messages, max_tokens=20).choices[0].message.content is not None


@pytest.mark.parametrize("seed", range(3))
def test_an_agent_loop_of_three_calls(client, seed):
    agent_loop(client, seed)


def test_a_form_of_the_final_text_is_no_form_of_a_forced_call(client):
    form = {
        "type": "json_schema",
        "json_schema": {
            "name": "o",
            "schema": {"type": "object", "properties": {"m": {"type": "null"}}, "required": ["m"]},
        },
    }
    choice = ask(client, tools=[ADD], tool_choice="required", parallel_tool_calls=False, response_format=form).choices[
        0
    ]
    [call] = choice.message.tool_calls
    check(call)


def test_what_cannot_be_held_of_a_schema_leaves_the_rest_of_it(client):
    properties = {
        "flag": {"type": "boolean"},
        "names": {"type": "array", "items": {"type": "string"}, "uniqueItems": True, "maxItems": 2},
    }
    tool = {
        "type": "function",
        "function": {
            "name": "save",
            "parameters": {"type": "object", "properties": properties, "required": list(properties)},
        },
    }
    for seed in range(3):
        choice = ask(
            client,
            tools=[tool],
            tool_choice="required",
            parallel_tool_calls=False,
            seed=seed,
            temperature=1,
            max_tokens=300,
        ).choices[0]
        if choice.finish_reason == "length":
            continue
        got = json.loads(choice.message.tool_calls[0].function.arguments)
        assert isinstance(got["flag"], bool) and all(isinstance(name, str) for name in got["names"]), got


@pytest.mark.parametrize(
    "fields, param",
    [
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": [ADD], "tool_choice": {"type": "function", "function": {"name": "sub"}}}, "tool_choice"),
        ({"tools": [ADD], "tool_choice": "always"}, "tool_choice"),
        ({"tools": [ADD], "tool_choice": {"type": "function"}}, "tool_choice.function"),
        (
            {
                "tools": [{"type": "function", "function": {"name": "f", "strict": True, "parameters": {"not": {}}}}],
                "tool_choice": "required",
            },
            "tools",
        ),
        ({"extra_body": {"thinking_token_budget": 5}}, "thinking_token_budget"),
        ({"extra_body": {"thinking_token_budget": -1}}, "thinking_token_budget"),
    ],
)
def test_what_cannot_be_forced_is_refused_by_name(client, fields, param):
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, **fields)
    assert caught.value.param == param, caught.value


def test_a_schema_that_is_not_held_is_any_object_unless_it_is_strict(client):
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "not": {}}}}
    [call] = (
        ask(
            client,
            tools=[tool],
            tool_choice={"type": "function", "function": {"name": "f"}},
            max_tokens=400,
            logit_bias={},
        )
        .choices[0]
        .message.tool_calls
    )
    assert call.function.name == "f" and call.function.arguments.startswith("{")


@pytest.fixture(scope="module")
def thinker(tmp_path_factory):
    """A model that is forced to reason, because the template opens the reasoning."""
    template = tmp_path_factory.mktemp("thinks") / "thinks.jinja"
    template.write_text(
        "{{ messages[-1]['content'] }}{% if enable_thinking is not defined or enable_thinking %}<think>\n"
        "{% else %}<think>\n\n</think>\n\n{% endif %}"
    )
    model = template.parent / "thinks.gguf"
    write_small_model(model, ("<think>", "</think>"))
    with (
        serving(
            model,
            "--served-model-name",
            "small",
            "--chat-template",
            str(template),
            "--reasoning-parser",
            "qwen3",
            "--tool-call-parser",
            "hermes",
        ) as server,
        httpx.Client(base_url=server.url, timeout=120) as http,
    ):
        yield http


def think(http, **fields):
    answer = http.post(
        "/v1/chat/completions",
        json={
            "messages": [{"role": "user", "content": "Hello"}],
            "temperature": 1,
            "seed": 1,
            "max_tokens": 120,
            **fields,
        },
    )
    assert answer.status_code == 200, answer.text
    if "no grammars" in answer.text:
        pytest.skip("no XGrammar")
    return answer.json()


@pytest.mark.parametrize("budget", [0, 1, 7, 30])
def test_reasoning_ends_within_its_budget(thinker, budget):
    free = think(thinker, max_tokens=60)["choices"][0]["message"]
    assert not free["content"] and free["reasoning_content"], "a random model never ends its reasoning"
    answer = think(thinker, thinking_token_budget=budget, return_token_ids=True)
    message = answer["choices"][0]["message"]
    assert message["content"], message
    assert len((message.get("reasoning_content") or "").encode()) <= 3 * budget


def test_reasoning_comes_before_what_is_held(thinker):
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "boolean"}}}
    message = think(thinker, thinking_token_budget=10, response_format=form)["choices"][0]["message"]
    assert json.loads(message["content"]) in (True, False)
    message = think(thinker, response_format=form, chat_template_kwargs={"enable_thinking": False})["choices"][0][
        "message"
    ]
    assert json.loads(message["content"]) in (True, False)
    message = think(thinker, thinking_token_budget=10, tools=[ADD], tool_choice="required", parallel_tool_calls=False)[
        "choices"
    ][0]["message"]
    [call] = message["tool_calls"]
    jsonschema.validate(json.loads(call["function"]["arguments"]), SCHEMAS["add"])


@pytest.mark.parametrize(
    "fields, thinks",
    [
        ({}, True),
        ({"enable_thinking": False}, False),
        ({"reasoning_effort": "none"}, False),
        ({"reasoning_effort": "low"}, True),
        ({"chat_template_kwargs": {"enable_thinking": False}}, False),
        ({"reasoning_effort": "none", "enable_thinking": True}, True),
    ],
)
def test_thinking_is_switched_by_all_names(thinker, fields, thinks):
    message = think(thinker, max_tokens=10, **fields)["choices"][0]["message"]
    assert bool(message.get("reasoning_content")) == thinks, message


def test_automatic_calls_are_held_once_they_begin(thinker):
    """A random model never begins a call by itself: a logit bias makes it do so, which the grammar allows."""
    text = "<tool_call>"
    ids = thinker.post("/tokenize", json={"prompt": text, "add_special_tokens": False}).json()["tokens"]
    seen = 0
    for seed in range(12):
        message = think(
            thinker,
            tools=[ADD],
            seed=seed,
            max_tokens=200,
            enable_thinking=False,
            logit_bias={str(id): 9 for id in set(ids)},
        )["choices"][0]["message"]
        for call in message.get("tool_calls") or []:
            assert call["function"]["name"] == "add"
            seen += 1
    print("calls begun by chance:", seen)
