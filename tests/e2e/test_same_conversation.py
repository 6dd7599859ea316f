"""One conversation through every protocol, streamed and whole: the same tokens, text and usage."""

import json

import anthropic
import httpx
import jsonschema
import ollama
import openai
import pytest
from conftest import default_model, serving
from small_model import write_small_model

TOOL = {
    "name": "weather",
    "description": "of a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}


@pytest.fixture(scope="module")
def house():
    # Markup of calls and reasoning is parsed, whatever this model writes.
    with serving(
        default_model(),
        "--max-model-len",
        "1024",
        "--served-model-name",
        "smol",
        "--tool-call-parser",
        "hermes",
        "--reasoning-parser",
        "qwen3",
    ) as server:
        yield server


def has_grammars(url):
    answer = httpx.post(
        url + "/v1/completions", json={"prompt": "x", "max_tokens": 1, "guided_regex": "a"}, timeout=120
    )
    return answer.status_code == 200


class Said:
    """The content of an answer, independent of the protocol."""

    def __init__(self, reasoning, text, calls, prompt_tokens, completion_tokens, length):
        self.told = (reasoning or "", text or "", calls, prompt_tokens, completion_tokens, length)

    def __eq__(self, other):
        return self.told == other.told

    def __repr__(self):
        return repr(self.told)


def chat(url, case, stream):
    with openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0, timeout=120) as client:
        more = {"tools": [{"type": "function", "function": TOOL}]} if case["tools"] else {}
        if "schema" in case:
            more["response_format"] = {"type": "json_schema", "json_schema": {"name": "x", "schema": case["schema"]}}
        if "choice" in case:
            more["tool_choice"] = (
                case["choice"] and {"type": "function", "function": {"name": case["choice"]}} or "required"
            )
            more["parallel_tool_calls"] = False
        arguments = dict(
            model="smol", temperature=0, messages=case["messages"], max_tokens=case["max"], stop=case["stop"], **more
        )
        if not stream:
            answer = client.chat.completions.create(**arguments)
            message, usage, choice = answer.choices[0].message, answer.usage, answer.choices[0]
            calls = [(c.function.name, json.loads(c.function.arguments)) for c in message.tool_calls or []]
            return Said(
                getattr(message, "reasoning", ""),
                message.content,
                calls,
                usage.prompt_tokens,
                usage.completion_tokens,
                choice.finish_reason == "length",
            )
        reasoning, text, calls, finish = "", "", [], None
        for chunk in client.chat.completions.create(stream=True, stream_options={"include_usage": True}, **arguments):
            usage = chunk.usage
            for choice in chunk.choices:
                text += choice.delta.content or ""
                reasoning += getattr(choice.delta, "reasoning", None) or ""
                for call in choice.delta.tool_calls or []:
                    if call.function.name:
                        calls.append([call.function.name, ""])
                    calls[-1][1] += call.function.arguments
                finish = choice.finish_reason or finish
        return Said(
            reasoning,
            text,
            [(n, json.loads(a)) for n, a in calls],
            usage.prompt_tokens,
            usage.completion_tokens,
            finish == "length",
        )


def responses(url, case, stream):
    with openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0, timeout=120) as client:
        more = {"tools": [{"type": "function", "strict": False, **TOOL}]} if case["tools"] else {}
        if "schema" in case:
            more["text"] = {"format": {"type": "json_schema", "name": "x", "schema": case["schema"]}}
        if "choice" in case:
            more["tool_choice"] = case["choice"] and {"type": "function", "name": case["choice"]} or "required"
            more["parallel_tool_calls"] = False
        arguments = dict(
            model="smol",
            temperature=0,
            input=case["messages"],
            max_output_tokens=case["max"],
            extra_body={"stop": case["stop"]},
            **more,
        )
        answer = client.responses.create(stream=stream, **arguments)
        if stream:
            *_, last = answer
            answer = last.response
        part = {item.type: item for item in answer.output}
        reasoning = part["reasoning"].content[0].text if "reasoning" in part else ""
        calls = [(i.name, json.loads(i.arguments)) for i in answer.output if i.type == "function_call"]
        return Said(
            reasoning,
            answer.output_text,
            calls,
            answer.usage.input_tokens,
            answer.usage.output_tokens,
            answer.status == "incomplete",
        )


def messages(url, case, stream):
    with anthropic.Anthropic(base_url=url, api_key="none", max_retries=0, timeout=120) as client:
        system = [m["content"] for m in case["messages"] if m["role"] == "system"]
        more = {"system": system[0]} if system else {}
        if case["tools"]:
            more["tools"] = [
                {"name": TOOL["name"], "description": TOOL["description"], "input_schema": TOOL["parameters"]}
            ]
        beyond = {"temperature": 0}
        if "schema" in case:
            beyond["output_config"] = {"format": {"type": "json_schema", "schema": case["schema"]}}
        if "choice" in case:
            more["tool_choice"] = {
                "disable_parallel_tool_use": True,
                **({"type": "tool", "name": case["choice"]} if case["choice"] else {"type": "any"}),
            }
        arguments = dict(
            model="smol",
            extra_body=beyond,
            max_tokens=case["max"],
            stop_sequences=case["stop"] or [],
            messages=[m for m in case["messages"] if m["role"] != "system"],
            **more,
        )
        if stream:
            with client.messages.stream(**arguments) as events:
                answer = events.get_final_message()
        else:
            answer = client.messages.create(**arguments)
        part = {block.type: block for block in answer.content}
        calls = [(b.name, b.input) for b in answer.content if b.type == "tool_use"]
        return Said(
            part["thinking"].thinking if "thinking" in part else "",
            part["text"].text if "text" in part else "",
            calls,
            answer.usage.input_tokens + answer.usage.cache_read_input_tokens,
            answer.usage.output_tokens,
            answer.stop_reason == "max_tokens",
        )


def lines(url, case, stream):
    client = ollama.Client(host=url, timeout=120)
    more = {"tools": [{"type": "function", "function": TOOL}]} if case["tools"] else {}
    if "choice" in case:
        pytest.skip("Ollama's protocol cannot force a call")
    if "schema" in case:
        more["format"] = case["schema"]
    arguments = dict(
        model="smol",
        messages=case["messages"],
        **more,
        options={"temperature": 0, "num_predict": case["max"], "stop": case["stop"]},
    )
    answers = list(client.chat(stream=True, **arguments)) if stream else [client.chat(**arguments)]
    calls = [(c.function.name, dict(c.function.arguments)) for a in answers for c in a.message.tool_calls or []]
    return Said(
        "".join(a.message.thinking or "" for a in answers),
        "".join(a.message.content or "" for a in answers),
        calls,
        answers[-1].prompt_eval_count,
        answers[-1].eval_count,
        answers[-1].done_reason == "length",
    )


PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 20},
        "age": {"type": "integer", "maximum": 120, "minimum": 0},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}
SYSTEM = {"role": "system", "content": "You answer briefly."}
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
REPEAT = "Repeat exactly, and nothing else: "
CASES = {
    "length": dict(messages=[SYSTEM, {"role": "user", "content": "Tell me a story."}], max=24, stop=None, tools=False),
    "stop": dict(messages=[{"role": "user", "content": "Say hello."}], max=40, stop=["e"], tools=False),
    "turns": dict(
        messages=[
            {"role": "user", "content": "Hi."},
            {"role": "assistant", "content": "Hello!"},
            {"role": "user", "content": "Name three colours."},
        ],
        max=40,
        stop=None,
        tools=False,
    ),
    "tools": dict(messages=[{"role": "user", "content": REPEAT + CALL}], max=60, stop=None, tools=True),
    "reasoning": dict(
        messages=[{"role": "user", "content": REPEAT + "<think>\nhm\n</think>\nYes."}], max=40, stop=None, tools=False
    ),
    "form": dict(
        messages=[{"role": "user", "content": "Alice is 30 years old."}], max=400, stop=None, tools=False, schema=PERSON
    ),
    "form, length": dict(
        messages=[{"role": "user", "content": "Alice is 30 years old."}], max=9, stop=None, tools=False, schema=PERSON
    ),
    "form, stop": dict(
        messages=[{"role": "user", "content": "Alice is 30 years old."}],
        max=60,
        stop=["age"],
        tools=False,
        schema=PERSON,
    ),
    "required": dict(
        messages=[{"role": "user", "content": "The weather in Oslo?"}], max=80, stop=None, tools=True, choice=None
    ),
    "named": dict(
        messages=[{"role": "user", "content": "The weather in Oslo?"}], max=80, stop=None, tools=True, choice="weather"
    ),
}
HELD = [name for name in CASES if "schema" in CASES[name] or "choice" in CASES[name]]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("ask", [chat, responses, messages, lines], ids=["chat", "responses", "messages", "ollama"])
@pytest.mark.parametrize("name", CASES)
def test_the_same_conversation(house, name, ask, stream):
    case = CASES[name]
    if name in HELD and not has_grammars(house.url):
        pytest.skip("this build has no XGrammar: forms are not tested")
    expected = chat(house.url, case, stream=False)
    assert expected.told[4] > 0
    if name == "form":
        jsonschema.validate(json.loads(expected.told[1]), PERSON)
    if "choice" in case:
        [(called, arguments)] = expected.told[2]
        assert called == "weather"
        jsonschema.validate(arguments, TOOL["parameters"])
    assert ask(house.url, case, stream) == expected


@pytest.fixture(scope="module")
def dead_end(tmp_path_factory):
    """A model without a token for the text required after three letters, so that every answer ends with an error."""
    folder = tmp_path_factory.mktemp("dead end")
    (folder / "plain.jinja").write_text("{% for m in messages %}{{ m.content }}\n{% endfor %}")
    write_small_model(folder / "m.gguf", without="z")
    with serving(
        folder / "m.gguf", "--served-model-name", "smol", "--chat-template", str(folder / "plain.jinja")
    ) as server:
        if not has_grammars(server.url):
            pytest.skip("this build has no XGrammar")
        yield server


@pytest.mark.parametrize("ask", [chat, responses, messages, lines], ids=["chat", "responses", "messages", "ollama"])
def test_an_error_in_the_middle_is_the_clients_own_error(dead_end, ask):
    """Whole answers give the protocol's HTTP error; streams give its error event after some text, as clients see it."""
    case = dict(
        messages=[{"role": "user", "content": "Go"}],
        max=60,
        stop=None,
        tools=False,
        schema={"type": "string", "pattern": "^[ab]{30}z$"},
    )
    for stream in (False, True):
        if ask is responses and stream:
            with openai.OpenAI(base_url=dead_end.url + "/v1", api_key="none", max_retries=0) as client:
                *events, last = client.responses.create(
                    model="smol",
                    input="Go",
                    stream=True,
                    temperature=0,
                    text={"format": {"type": "json_schema", "name": "x", "schema": case["schema"]}},
                )
            assert "".join(event.delta for event in events if event.type == "response.output_text.delta").startswith(
                '"'
            )
            assert last.type == "response.failed" and last.response.status == "failed"
            assert "dead end" in last.response.error.message, last
            continue
        with pytest.raises((openai.APIError, anthropic.APIStatusError, ollama.ResponseError)) as error:
            ask(dead_end.url, case, stream)
        assert "dead end" in str(error.value), error.value
    assert dead_end.wait_until_idle()


@pytest.mark.parametrize(
    "path, body, param",
    [
        (
            "/v1/responses",
            {"input": "x", "text": {"format": {"type": "json_schema", "name": "x", "schema": {"not": {}}}}},
            "text.format.schema",
        ),
        ("/v1/responses", {"input": "x", "tool_choice": "required"}, "tool_choice"),
        ("/v1/responses", {"input": "x", "tool_choice": "always"}, "tool_choice"),
        (
            "/v1/messages",
            {
                "messages": [{"role": "user", "content": "x"}],
                "max_tokens": 9,
                "output_config": {"format": {"type": "json_schema", "schema": {"not": {}}}},
            },
            "output_config.format.schema",
        ),
        (
            "/v1/messages",
            {"messages": [{"role": "user", "content": "x"}], "max_tokens": 9, "tool_choice": {"type": "any"}},
            "tool_choice",
        ),
        (
            "/api/chat",
            {"messages": [{"role": "user", "content": "x"}], "stream": False, "format": {"not": {}}},
            "format",
        ),
        ("/api/chat", {"messages": [{"role": "user", "content": "x"}], "stream": False, "format": "xml"}, "format"),
        ("/api/generate", {"prompt": "x", "raw": True, "stream": False, "format": 1}, "format"),
        ("/completion", {"prompt": "x", "n_predict": 9, "grammar": "root ::= x"}, "grammar"),
        ("/completion", {"prompt": "x", "n_predict": 9, "json_schema": {"not": {}}}, "json_schema"),
    ],
)
def test_a_form_that_is_not_held_is_refused_by_the_protocols_own_name(house, path, body, param):
    if not has_grammars(house.url):
        pytest.skip("this build has no XGrammar")
    answer = httpx.post(house.url + path, json={"model": "smol", **body}, timeout=120)
    assert answer.status_code == 400 and f"'{param}'" in answer.text, answer.text


@pytest.mark.parametrize(
    "path, body, text",
    [
        (
            "/api/generate",
            {"prompt": "x", "stream": False, "format": PERSON, "options": {"num_predict": 400}},
            "response",
        ),
        (
            "/api/generate",
            {"prompt": "x", "raw": True, "stream": False, "format": PERSON, "options": {"num_predict": 400}},
            "response",
        ),
        ("/completion", {"prompt": "x", "n_predict": 400, "json_schema": PERSON}, "content"),
        (
            "/completion",
            {"prompt": "x", "n_predict": 400, "grammar": 'root ::= "{\\"name\\":\\"" [a-z]{1,5} "\\",\\"age\\":7}"'},
            "content",
        ),
    ],
)
def test_prompts_without_a_conversation(house, path, body, text):
    if not has_grammars(house.url):
        pytest.skip("this build has no XGrammar")
    answer = httpx.post(house.url + path, json={"model": "smol", **body}, timeout=120)
    assert answer.status_code == 200, answer.text
    jsonschema.validate(json.loads(answer.json()[text]), PERSON)
