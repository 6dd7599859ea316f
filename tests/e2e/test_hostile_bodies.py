"""Hostile bodies for every protocol: each gets an error in the protocol's form or an answer, within bounded time and
memory, and the answers of other clients do not change."""

import json
import os
import random
import threading
import time

import httpx
import pytest
import vector_models
from conftest import serving, small_model

MESSAGES = [{"role": "user", "content": "Once"}]
TOOL = {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
RICH = {
    "type": "object",
    "required": ["a"],
    "additionalProperties": False,
    "properties": {
        "a": {"type": "string", "maxLength": 3},
        "b": {"enum": ["x", 1]},
        "c": {"type": "array", "items": {"$ref": "#/$defs/d"}, "maxItems": 2},
        "e": {"anyOf": [{"type": "null"}, {"type": "number", "minimum": 0, "maximum": 9}]},
    },
    "$defs": {"d": {"type": "boolean"}},
}
STRICT = {"name": "f", "strict": True, "parameters": RICH}
TAG = {
    "type": "structural_tag",
    "format": {
        "type": "triggered_tags",
        "triggers": ["<f"],
        "tags": [{"begin": "<f>", "content": {"type": "json_schema", "json_schema": SCHEMA}, "end": "</f>"}],
    },
}
# A body with many fields for each route. Wrong values are put into copies.
GOOD = {
    "/v1/completions": {
        "prompt": ["Once", "upon"],
        "max_tokens": 2,
        "logprobs": 1,
        "stop": ["x"],
        "logit_bias": {"5": 1},
        "n": 1,
        "stream": False,
    },
    "/v1/chat/completions": {
        "messages": MESSAGES,
        "max_tokens": 2,
        "tools": [{"type": "function", "function": TOOL}],
        "tool_choice": "auto",
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}},
    },
    "/v1/responses": {
        "input": [{"role": "user", "content": [{"type": "input_text", "text": "Once"}]}],
        "max_output_tokens": 2,
        "tools": [{"type": "function", **TOOL}],
        "text": {"format": {"type": "json_schema", "name": "x", "schema": SCHEMA}},
    },
    "/v1/messages": {
        "model": "small",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Once"}]}],
        "max_tokens": 2,
        "system": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}],
        "tools": [{"name": "f", "input_schema": TOOL["parameters"]}],
    },
    "/api/chat": {
        "model": "small",
        "messages": MESSAGES,
        "stream": False,
        "format": SCHEMA,
        "options": {"num_predict": 2, "stop": ["x"]},
        "tools": [{"type": "function", "function": TOOL}],
    },
    "/api/generate": {
        "model": "small",
        "prompt": "Once",
        "stream": False,
        "options": {"num_predict": 2, "temperature": 0},
    },
    "/completion": {"prompt": "Once", "n_predict": 2, "json_schema": SCHEMA, "logit_bias": [[5, 1]]},
    "/v1/completions, a tag": {"prompt": "Once", "max_tokens": 2, "structured_outputs": {"structural_tag": TAG}},
    "/v1/chat/completions, forced": {
        "messages": MESSAGES,
        "max_tokens": 2,
        "tools": [{"type": "function", "function": STRICT}],
        "tool_choice": {"type": "function", "function": {"name": "f"}},
        "parallel_tool_calls": False,
    },
    "/v1/chat/completions, strict": {
        "messages": MESSAGES,
        "max_tokens": 2,
        "tools": [{"type": "function", "function": STRICT}],
        "stream_options": {"include_usage": True},
        "stream": True,
        "reasoning_effort": "low",
    },
    "/v1/responses, forced": {
        "input": "Once",
        "max_output_tokens": 2,
        "tools": [{"type": "function", **STRICT}],
        "tool_choice": {"type": "function", "name": "f"},
        "reasoning": {"effort": "low"},
        "store": True,
        "include": [],
    },
    "/v1/messages, forced": {
        "model": "small",
        "messages": MESSAGES,
        "max_tokens": 2,
        "tools": [{"name": "f", "input_schema": RICH}],
        "tool_choice": {"type": "tool", "name": "f"},
        "thinking": {"type": "disabled"},
        "stream": True,
    },
    "/tokenize": {"prompt": "Once"},
    "/detokenize": {"tokens": [1, 2, 3]},
    "/apply-template": {"messages": MESSAGES},
}
GOOD_VECTORS = {
    "/v1/embeddings": {"input": ["Once", "upon"], "encoding_format": "float", "dimensions": 4},
    "/v1/score": {"text_1": "Once", "text_2": ["upon", "a"]},
    "/v1/rerank": {"query": "Once", "documents": ["upon", "a time"], "top_n": 1},
    "/pooling": {"input": [[1, 2], [3]]},
    "/api/embed": {"model": "bert", "input": ["Once"], "truncate": True},
}
STRANGE = [
    None,
    True,
    -1,
    0,
    1e308,
    -1e308,
    2**63,
    -(2**63) - 1,
    2**100,
    0.5,
    "",
    "\x00",
    "\ud800",
    "x" * 100_000,
    [],
    {},
    [[]],
    [None],
    {"": None},
    [0] * 20_000,
    ["x"] * 5_000,
    {str(i): i for i in range(3_000)},
    {"$ref": "#"},
    {"type": "function", "function": {}},
    "\u202e\ufeff\U0010ffff",
]
RAW = [
    b"",
    b"{",
    b"null",
    b"[]",
    b'"x"',
    b"1",
    b"\xff\xfe\x00",
    b'{"a":',
    b'{"prompt":"\xc3\x28"}',
    b'{"prompt":"\\ud800"}',
    b"[" * 100_000,
    b'{"a":' * 50_000,
    b'{"messages":' + b"[" * 30_000 + b"]" * 30_000 + b"}",
    b'{"prompt":' + b"1" * 100_000 + b"}",
    b'{"prompt":1e' + b"9" * 1000 + b"}",
    b'{"prompt":"a","prompt":"b"}',
    b"{" + b",".join(b'"k%d":0' % i for i in range(50_000)) + b"}",
    b'{"prompt":"' + b"a" * 2_000_000 + b'"}',
    b'\xef\xbb\xbf{"prompt":"a"}',
    b'{"prompt":NaN}',
    b'{"prompt":"a"}garbage',
    b'{"prompt":"' + b"\\u0000" * 50_000 + b'"}',
]


def places(value, path=()):
    yield path
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield from places(value[key], (*path, key))


def changed(body, path, new):
    if not path:
        return new
    copy = dict(body) if isinstance(body, dict) else list(body)
    copy[path[0]] = changed(copy[path[0]], path[1:], new)
    return copy


def hostile(good):
    yield from RAW
    draw, spots = random.Random(5), [path for path in places(good) if path]
    for path in spots:  # every place gets some strange values, a different choice at each
        for new in draw.sample(STRANGE, 5):
            yield json.dumps(changed(good, path, new)).encode()
    for _ in range(25):
        text = bytearray(json.dumps(good).encode())
        for _ in range(draw.randrange(1, 6)):
            text[draw.randrange(len(text))] = draw.randrange(256)
        yield bytes(text)


def resident_mib(process):
    with open(f"/proc/{process.pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20


def said(path, answer):
    """Returns the error message, from its place in this protocol."""
    body = answer.json()
    if path.startswith("/api/"):
        assert isinstance(body["error"], str) and body["error"], answer.text
        return body["error"]
    if path.startswith("/v1/messages"):
        assert body["type"] == "error", answer.text
    assert isinstance(body["error"]["message"], str) and body["error"]["type"], answer.text
    return body["error"]["message"]


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    template = tmp_path_factory.mktemp("t") / "plain.jinja"
    template.write_text("{% for m in messages %}{{ m.content }}\n{% endfor %}")
    with serving(small_model(), "--served-model-name", "small", "--chat-template", str(template)) as server:
        yield server


# Formats that a grammar can write, that it cannot write, and that are parsed by token.
@pytest.fixture(
    scope="module",
    params=[("qwen3_coder", "qwen3"), ("kimi_k3", "kimi_k3"), ("openai", "")],
    ids=lambda formats: formats[0],
)
def thinker(request, tmp_path_factory):
    template = tmp_path_factory.mktemp("t") / "plain.jinja"
    template.write_text("{% for m in messages %}{{ m.content }}\n{% endfor %}")
    tools, reasoning = request.param
    with serving(
        small_model(),
        "--served-model-name",
        "small",
        "--chat-template",
        str(template),
        "--tool-call-parser",
        tools,
        *(["--reasoning-parser", reasoning] if reasoning else []),
    ) as server:
        yield server


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    folder, _ = vector_models.write("bert", tmp_path_factory.mktemp("bert") / "m", pooling="mean")
    with serving(folder, "--served-model-name", "bert") as server:
        yield server


@pytest.mark.parametrize("path", GOOD)
def test_they_cost_their_sender_alone(house, path):
    body = {"prompt": "Once upon a time", "max_tokens": 8, "temperature": 0, "ignore_eos": True}
    check(house, path, GOOD[path], lambda http: http.post("/v1/completions", json=body).json()["choices"])


@pytest.mark.parametrize(
    "form",
    [
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": "{"}}},
        {"guided_json": "{"},
        {"guided_choice": []},
        {"structured_outputs": {"structural_tag": {"a": 1}}},
    ],
    ids=lambda form: next(iter(form)),
)
def test_a_wrong_form_is_refused_with_other_formats_too(thinker, form):
    answer = httpx.post(
        thinker.url + "/v1/chat/completions", json={"messages": MESSAGES, "max_tokens": 2, **form}, timeout=120
    )
    assert answer.status_code in (400, 501) and next(iter(form)) in answer.json()["error"]["param"], answer.text


@pytest.mark.parametrize("path", GOOD_VECTORS)
def test_of_vectors_too(bert, path):
    check(bert, path, GOOD_VECTORS[path], lambda http: http.post("/v1/embeddings", json={"input": "ab"}).json()["data"])


def check(server, path, good, plain):
    path = path.split(",")[0]
    with httpx.Client(base_url=server.url, timeout=120) as http:
        wanted, answer = plain(http), http.post(path, json=good)
        assert (
            answer.status_code == 200
            or "no grammars" in answer.text
            or "is not available with" in answer.text
            or "does not support" in answer.text
        ), answer.text
        before, done, there, waits, wrong = resident_mib(server.process), threading.Event(), threading.Event(), [], []

        def neighbour():
            with httpx.Client(base_url=server.url, timeout=120) as client:
                while not done.is_set():
                    begin = time.monotonic()
                    wrong.extend([] if plain(client) == wanted else ["another answer"])
                    waits.append(time.monotonic() - begin)
                    there.set()

        beside = threading.Thread(target=neighbour)
        beside.start()
        assert there.wait(60)
        refused = 0
        try:
            for body in hostile(good):
                answer = http.post(path, content=body, headers={"Content-Type": "application/json"})
                assert answer.status_code in (200, 400, 404, 413, 422, 501), (
                    answer.status_code,
                    answer.text[:300],
                    body[:300],
                )
                if answer.status_code != 200:
                    refused += 1
                    message = said(path, answer)
                    assert len(message) < 2000 and "/src/" not in message and ".cc" not in message, message
        finally:
            done.set()
            beside.join()
        assert refused > 40
        assert not wrong and max(waits) < 30
        assert server.wait_until_idle()
        assert resident_mib(server.process) - before < 64
        assert plain(http) == wanted
