"""Constrained answers: all answers of a random model match the schema, expression or grammar, in every mode of
decoding, memory and speculation, and do not depend on other requests. Oracle: jsonschema. Expressions and grammars are
tested in test_expressions_and_grammars.py."""

import concurrent.futures
import json
import random
import re

import httpx
import jsonschema
import pytest
from conftest import Server, binary, serving, shared_data, small_model
from small_model import vocabulary, write_small_model

TOKENS, _ = vocabulary()
ID = {token: i for i, token in enumerate(TOKENS)}
# A random model rarely ends a value: a bias makes the ends of strings, lists and objects more likely.
ENDS = {str(ID[token]): 4 for token in ('"', "}", "]", ",")}
SMALL = ["--max-num-seqs", "16", "--kv-cache-memory-bytes", "300KiB"]

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 8},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "tags": {"type": "array", "items": {"enum": ["a", "bc", "def"]}, "maxItems": 3},
        "address": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/Address"}]},
    },
    "required": ["name", "age", "tags", "address"],
    "$defs": {
        "Address": {
            "type": "object",
            "properties": {"zip": {"type": "string", "pattern": "^[0-9]{5}$"}},
            "required": ["zip"],
        }
    },
}
OWN_CASES = [
    PERSON,
    {"type": "object"},
    {"type": "array"},
    {},
    True,
    {"type": "string", "maxLength": 5},
    {"type": "number"},
    {"type": "number", "minimum": -1.5, "maximum": 2.25},
    {"type": "integer", "exclusiveMinimum": 3, "exclusiveMaximum": 9},
    {"type": "integer", "multipleOf": 7},
    {"type": "boolean"},
    {"type": ["string", "null"], "minLength": 2, "maxLength": 4},
    {"const": {"a": [1, "x"]}},
    {"enum": ['ä"\\', 1.5, None, [], {"k": True}]},
    {"type": "string", "pattern": '^(ab|c"d)+$'},
    {"type": "string", "format": "date-time"},
    {"type": "string", "format": "uuid"},
    {"type": "array", "prefixItems": [{"type": "null"}, {"type": "boolean"}], "items": False},
    {"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 4},
    {"type": "object", "additionalProperties": {"type": "boolean"}},
    {"properties": {"a": {"type": "null"}}, "required": ["b"]},
    {"type": "object", "patternProperties": {"^x[0-9]$": {"type": "null"}}, "minProperties": 1},
    {
        "type": "object",
        "properties": {"a": {"type": "null"}, "b": {"type": "null"}, "c": {"type": "null"}},
        "minProperties": 2,
    },
    {"type": "object", "propertyNames": {"enum": ["p", "q"]}, "additionalProperties": {"type": "null"}},
    {
        "$defs": {
            "tree": {"type": "object", "properties": {"left": {"$ref": "#/$defs/tree"}, "leaf": {"type": "null"}}}
        },
        "$ref": "#/$defs/tree",
    },
    {
        "oneOf": [
            {"type": "object", "properties": {"kind": {"const": "a"}}, "required": ["kind"]},
            {"type": "object", "properties": {"kind": {"const": "b"}}, "required": ["kind"]},
        ]
    },
    {"allOf": [{"type": "integer", "minimum": 5, "maximum": 6}]},
]


@pytest.fixture(scope="module")
def http():
    with (
        serving(small_model(), "--served-model-name", "small") as server,
        httpx.Client(base_url=server.url, timeout=120) as client,
    ):
        probe = client.post("/v1/completions", json={"prompt": "a", "max_tokens": 1, "guided_regex": "a"})
        if "no grammars" in probe.text:
            pytest.skip("this build has no XGrammar: structured output is not tested")
        yield client


def ask(http, expect=200, **fields):
    body = {"prompt": "Once upon a time", "temperature": 1, "seed": 1, "max_tokens": 200, **fields}
    answer = http.post("/v1/completions", json=body)
    assert answer.status_code == expect, (fields, answer.text)
    return answer.json()


def holds(schema, choice):
    if choice["finish_reason"] == "length":
        return False
    assert choice["finish_reason"] == "stop", choice
    value = json.loads(choice["text"])
    draft7 = isinstance(schema, dict) and isinstance(schema.get("items"), list)
    validator = jsonschema.validators.validator_for(
        schema, default=jsonschema.Draft7Validator if draft7 else jsonschema.Draft202012Validator
    )
    validator(schema).validate(value)
    return True


def try_schemas(http, schemas, seeds):
    """Returns the number of complete answers, and the refusals. There may be no other outcome."""

    def one(job):
        schema, seed = job
        body = {
            "prompt": "Once",
            "temperature": 1,
            "seed": seed,
            "max_tokens": 120,
            "logit_bias": ENDS,
            "structured_outputs": {"json": schema},
        }
        answer = http.post("/v1/completions", json=body)
        if answer.status_code == 400:
            error = answer.json()["error"]
            assert error["code"] == "invalid_grammar" and error["param"] == "structured_outputs.json", error
            return "refused", schema, error["message"]
        assert answer.status_code == 200, (schema, answer.text)
        return ("whole" if holds(schema, answer.json()["choices"][0]) else "cut"), schema, ""

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        return list(pool.map(one, [(schema, seed) for schema in schemas for seed in range(seeds)]))


def test_every_answer_has_the_form_of_its_schema(http):
    results = try_schemas(http, OWN_CASES, 6)
    assert not [r for r in results if r[0] == "refused"], [r for r in results if r[0] == "refused"]
    for schema in OWN_CASES:
        # A random model rarely completes an answer without constraints.
        if schema not in ({}, True, {"type": "object"}, {"type": "array"}):
            assert any(r[0] == "whole" for r in results if r[1] == schema), schema


def test_the_json_schema_conformance_cases(http):
    data = shared_data()
    if data is None or not (data / "conformance/json_schema_draft2020_draft7.jsonl").exists():
        pytest.skip("the JSON Schema cases are not here (PAGODA_SHARED_DATA)")
    schemas = []
    for line in (data / "conformance/json_schema_draft2020_draft7.jsonl").open():
        case = json.loads(line)
        if "draft7" in case["file"] and isinstance(case["schema"], dict):
            case["schema"].setdefault("$schema", "http://json-schema.org/draft-07/schema#")
        schemas.append(case["schema"])
    results = try_schemas(http, schemas, 2)
    counts = {kind: sum(r[0] == kind for r in results) for kind in ("whole", "cut", "refused")}
    print(counts)
    assert counts["refused"] <= 0.15 * len(results), counts
    for kind, schema, message in results:  # a refusal names the unsupported part
        assert kind != "refused" or "'" in message.removeprefix("'structured_outputs.json' cannot be used: "), (
            schema,
            message,
        )


STRINGS, KEYS = ["", "a", "ab", "b1", "é"], ["a", "b", "ab"]
PATTERNS = ["^a", "b$", "a", "^[a-z]+$", "^.{2,3}$", "^a|b$", "[0-9]"]


def random_schema(draw, depth):
    """Returns a schema with an arbitrary combination and nesting of keywords."""

    def leaf():
        return draw.choice(
            [
                {"type": "string", "maxLength": 4},
                {"type": "integer"},
                {"type": "null"},
                {"type": "boolean"},
                {"enum": draw.sample(STRINGS + [1, 2, None, True], 3)},
                {"type": "string", "pattern": draw.choice(PATTERNS)},
                {"type": "number", "maximum": draw.choice([0, 2, 5])},
                {"type": "integer", "minimum": 2, "maximum": 9},
            ]
        )

    def part():
        return random_schema(draw, depth - 1)

    if depth == 0:
        return leaf()
    kind = draw.randrange(9)
    if kind < 3:
        return {("anyOf", "oneOf", "allOf")[kind]: [part(), part()]}
    if kind == 3:
        return {**leaf(), "not": part()}
    if kind == 4:
        return {"if": part(), "then": part(), "else": part()}
    if kind == 5:
        return {"type": "array", "items": part(), "contains": part(), "maxItems": 3}
    if kind == 6:
        return {
            "type": "array",
            "prefixItems": [part()],
            "items": leaf(),
            "uniqueItems": draw.random() < 0.3,
            "maxItems": 3,
        }
    schema = {"type": "object", "properties": {name: part() for name in draw.sample(KEYS, 2)}}
    if draw.random() < 0.5:
        schema["required"] = [draw.choice(KEYS)]
    if draw.random() < 0.6:
        schema["patternProperties"] = {pattern: part() for pattern in draw.sample(PATTERNS, 2)}
    if draw.random() < 0.4:
        schema["additionalProperties"] = draw.choice([False, part()])
    if draw.random() < 0.2:
        schema["propertyNames"] = {"pattern": draw.choice(PATTERNS)}
    if draw.random() < 0.2:
        schema["dependentRequired"] = {draw.choice(KEYS): [draw.choice(KEYS)]}
    return schema


def test_keywords_beside_each_other(http):
    draw = random.Random(1)
    results = try_schemas(http, [random_schema(draw, draw.choice([1, 2, 2, 3])) for _ in range(150)], 2)
    counts = {kind: sum(r[0] == kind for r in results) for kind in ("whole", "cut", "refused")}
    assert counts["whole"] > 60, counts


def test_without_strict_what_cannot_be_held_is_left_out_with_a_warning(http):
    schema = {
        "type": "object",
        "properties": {
            "tags": {"type": "array", "items": {"type": "string", "maxLength": 3}, "uniqueItems": True, "maxItems": 2},
            "count": {"type": "integer", "minimum": 3, "maximum": 4},
        },
        "required": ["tags", "count"],
    }

    def send(**strict):
        return http.post(
            "/v1/completions",
            json={
                "prompt": "Once",
                "max_tokens": 60,
                "seed": 1,
                "logit_bias": ENDS,
                "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, **strict}},
            },
        )

    for strict in {"strict": True}, {}:
        assert send(**strict).status_code == 400 and "'uniqueItems'" in send(**strict).text
    for _ in range(2):  # compiled first, then cached
        answer = send(strict=False)
        assert answer.status_code == 200, answer.text
        assert "uniqueItems" in answer.headers["warning"] and "#/properties/tags" in answer.headers["warning"], (
            answer.headers
        )
        assert json.loads(answer.json()["choices"][0]["text"])["count"] in (3, 4), answer.text


def test_a_text_without_white_space_on_request(http):
    schema = {
        "type": "object",
        "properties": {"a": {"type": "array", "items": {"type": "null"}, "minItems": 2, "maxItems": 2}},
        "required": ["a"],
    }
    for options in {"disable_any_whitespace": True}, {"whitespace_pattern": "[ ]?"}:
        assert ask(http, structured_outputs={"json": schema, **options})["choices"][0]["text"] == '{"a":[null,null]}'
    for seed in range(5):  # at most one blank between two parts
        text = ask(http, structured_outputs={"json": schema}, seed=seed, logit_bias={str(ID["Ġ"]): 50})["choices"][0][
            "text"
        ]
        assert not re.search(r"\s\s", text) and json.loads(text) == {"a": [None, None]}, text
    error = ask(http, 400, structured_outputs={"json": schema, "whitespace_pattern": "[ ]"})["error"]
    assert error["param"] == "structured_outputs.whitespace_pattern", error


def test_the_fields_of_all_three_name_the_same(http):
    schema = {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]}
    same = [
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": schema}}},
        {"structured_outputs": {"json": schema}},
        {"structured_outputs": {"json": json.dumps(schema)}},
        {"guided_json": schema},
        {"json_schema": schema},
        {"response_format": {"type": "json_object", "schema": schema}},
    ]
    texts = {ask(http, **fields)["choices"][0]["text"] for fields in same}
    assert len(texts) == 1 and set(json.loads(texts.pop())) == {"a"}
    assert ask(http, structured_outputs={"choice": ["one", "two"]})["choices"][0]["text"] in ("one", "two")
    assert ask(http, guided_choice=["three"])["choices"][0]["text"] == "three"
    assert (
        json.loads(
            ask(http, response_format={"type": "json_object"}, logit_bias={**ENDS, str(ID["}"]): 100})["choices"][0][
                "text"
            ]
        )
        == {}
    )
    tag = {
        "type": "structural_tag",
        "format": {
            "type": "tag",
            "begin": "<a>",
            "content": {"type": "json_schema", "json_schema": {"type": "boolean"}},
            "end": "</a>",
        },
    }
    for fields in {"response_format": tag}, {"structured_outputs": {"structural_tag": json.dumps(tag)}}:
        assert ask(http, **fields)["choices"][0]["text"] in ("<a>true</a>", "<a>false</a>")


@pytest.mark.parametrize(
    "fields, param, words",
    [
        ({"guided_json": {"not": {}}}, "guided_json", "'not'"),
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "x", "schema": {"type": "array", "uniqueItems": True}},
                }
            },
            "response_format.json_schema.schema",
            "'uniqueItems'",
        ),
        ({"guided_regex": "a(?=b)"}, "guided_regex", "ookahead"),
        ({"guided_regex": "("}, "guided_regex", ""),
        ({"grammar": "root ::= undefined"}, "grammar", ""),
        ({"guided_json": {}, "guided_regex": "a"}, "guided_regex", "combined with 'guided_json'"),
        ({"structured_outputs": {"json": {}, "regex": "a"}}, "structured_outputs.regex", "combined with"),
        ({"structured_outputs": {}}, "structured_outputs", "needs one"),
        ({"structured_outputs": {"json": "{"}}, "structured_outputs.json", "not valid JSON"),
        ({"structured_outputs": {"choice": "a"}}, "structured_outputs.choice", "list"),
        ({"guided_choice": []}, "guided_choice", "at least one"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema", "required"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}},
            "response_format.json_schema.schema",
            "required",
        ),
        ({"response_format": {"type": "yaml"}}, "response_format.type", "must be"),
        ({"grammar": "a" * 70000}, "grammar", "bytes"),
    ],
)
def test_what_cannot_be_held_is_refused_by_name(http, fields, param, words):
    error = ask(http, 400, **fields)["error"]
    assert error["param"] == param and words in error["message"], error


MODES = {
    "defaults": [],
    "recompute": [*SMALL, "--preemption-mode", "recompute"],
    "swap": [*SMALL, "--swap-space", "1MiB", "--preemption-mode", "swap"],
    "whole prompts without a cache": [*SMALL, "--no-enable-chunked-prefill", "--no-enable-prefix-caching"],
    "speculation": ["--speculative-config", '{"method": "ngram", "num_speculative_tokens": 4}'],
    "virtual": ["--kv-manager", "virtual"],
}
ASKS = [
    {"n": 3, "guided_json": PERSON},
    {"best_of": 4, "n": 2, "guided_json": PERSON},
    {"guided_json": PERSON, "seed": 5},
    {"n": 2, "use_beam_search": True, "beam_width": 4, "temperature": 0, "guided_json": PERSON},
    {"guided_json": PERSON, "logprobs": 3},
    {"guided_json": PERSON, "stop": ['"tags"']},
    {"guided_regex": "(ab|cd)+", "min_tokens": 12},
    {"guided_json": PERSON, "temperature": 0},
    {"guided_json": PERSON, "logit_bias": ENDS, "presence_penalty": 1.0},
    {"max_tokens": 40},
]


@pytest.fixture(scope="module")
def alone(http):
    return [ask(http, **{"max_tokens": 90, **fields})["choices"] for fields in ASKS]


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_says_the_same(http, alone, mode, tmp_path):
    """All requests at once, in each mode, and again in a replay of the record."""
    log = tmp_path / "run.log"
    length = ["--max-model-len", "128"] if "--kv-cache-memory-bytes" in MODES[mode] else []
    server = Server(small_model(), *MODES[mode], *length, "--record", log)
    try:
        with (
            httpx.Client(base_url=server.url, timeout=120) as client,
            concurrent.futures.ThreadPoolExecutor(20) as pool,
        ):
            jobs = [pool.submit(ask, client, **{"max_tokens": 90, **fields}) for fields in ASKS * 2]
            for i, job in enumerate(jobs):
                assert job.result()["choices"] == alone[i % len(ASKS)], ASKS[i % len(ASKS)]
        if mode in ("recompute", "swap"):
            assert server.metric("num_preemptions_total") > 0
    finally:
        assert server.stop() == 0
    import subprocess

    done = subprocess.run([binary(), "simulate", "--replay", log], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and "every decision the same" in done.stdout, done.stdout + done.stderr


def test_what_the_modes_say_is_right(alone):
    for fields, choices in zip(ASKS, alone):
        for choice in choices:
            if "guided_json" in fields and "stop" not in fields and choice["finish_reason"] == "stop":
                assert holds(PERSON, choice), choice
            if "guided_regex" in fields and choice["finish_reason"] == "stop":
                assert re.fullmatch(fields["guided_regex"], choice["text"]) and len(choice["text"]) >= 12
    [stopped] = alone[5]
    assert stopped["stop_reason"] == '"tags"' and stopped["text"].startswith("{"), stopped


def test_logprobs_are_of_what_may_come(http):
    choice = ask(http, guided_choice=["ab", "ac"], logprobs=5)["choices"][0]
    first, second = choice["logprobs"]["token_logprobs"][:2]
    if choice["logprobs"]["tokens"][0] == "a":
        assert first == 0 or first > -20
        assert second > -10


def test_a_dead_end_is_an_error_of_its_own(tmp_path):
    """The text required after "a" is in no token of this model."""
    model = tmp_path / "no z.gguf"
    write_small_model(model, without="z")
    fields = {"prompt": "Once", "max_tokens": 20, "temperature": 0, "guided_regex": "az"}
    with (
        serving(model, "--served-model-name", "small") as server,
        httpx.Client(base_url=server.url, timeout=120) as http,
    ):
        for more in ({}, {"n": 3, "temperature": 1}, {"use_beam_search": True, "beam_width": 3}):
            answer = http.post("/v1/completions", json={**fields, **more})
            if "no grammars" in answer.text:
                pytest.skip("this build has no XGrammar")
            assert answer.status_code == 400 and answer.json()["error"]["code"] == "constraint_dead_end", (
                more,
                answer.text,
            )
        streamed = http.post("/v1/completions", json={**fields, "stream": True})
        # Before the first chunk, the status reports the error; after it, an event.
        assert "constraint_dead_end" in streamed.text, streamed.text
        assert streamed.status_code == 400 or streamed.text.rstrip().endswith("data: [DONE]"), streamed.text
        whole = http.post("/v1/completions", json={**fields, "guided_regex": "a(z|b)"}).json()["choices"][0]
        assert (whole["text"], whole["finish_reason"]) == ("ab", "stop"), whole
        assert server.wait_until_idle(), "a dead end leaves nothing running"


def test_the_form_goes_before_other_wishes(http):
    assert ask(http, guided_choice=["ab"], min_tokens=9)["choices"][0]["text"] == "ab"
    assert ask(http, guided_regex="aaa", allowed_token_ids=[ID["b"]])["choices"][0]["text"] == "aaa"


def test_streams_and_chat(server):
    """The default model gives complete JSON for the schema, and a Pydantic model through openai's parse()."""
    import openai
    from pydantic import BaseModel

    class Step(BaseModel):
        action: str
        count: int

    with openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0, timeout=120) as client:
        messages = [{"role": "user", "content": "Give me an action and how often to do it, as JSON."}]
        parsed = client.chat.completions.parse(
            model="smol", messages=messages, response_format=Step, max_tokens=200, temperature=0
        )
        assert isinstance(parsed.choices[0].message.parsed, Step), parsed
        text = ""
        for chunk in client.chat.completions.create(
            model="smol",
            messages=messages,
            max_tokens=200,
            temperature=0,
            stream=True,
            response_format={
                "type": "json_schema",
                "json_schema": {"name": "step", "schema": Step.model_json_schema()},
            },
        ):
            text += chunk.choices[0].delta.content or ""
        Step.model_validate_json(text)


def test_a_real_model_writes_at_most_one_blank_between_parts(server):
    """Small models write as much whitespace as they are allowed to."""
    schema = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 12},
            "tags": {"type": "array", "items": {"type": "string", "maxLength": 8}, "maxItems": 3},
            "age": {"type": "integer", "minimum": 0, "maximum": 99},
        },
        "required": ["name", "tags", "age"],
    }
    formats = [{"type": "json_schema", "json_schema": {"name": "person", "schema": schema}}, {"type": "json_object"}]
    with httpx.Client(base_url=server.url, timeout=120) as client:
        for form in formats:
            for fields in {"temperature": 0}, {"temperature": 1.2, "seed": 1}, {"temperature": 1.2, "seed": 2}:
                answer = client.post(
                    "/v1/chat/completions",
                    json={
                        "messages": [{"role": "user", "content": "Describe Alice, who is 30, as JSON."}],
                        "max_tokens": 80,
                        "response_format": form,
                        **fields,
                    },
                )
                text = answer.json()["choices"][0]["message"]["content"]
                outside = re.sub(r'"(?:[^"\\]|\\.)*("|$)', '""', text)
                assert not re.search(r"\s\s", outside), text
