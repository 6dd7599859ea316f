"""Every keyword of JSON Schema (drafts 4 to 2020-12) is enforced, refused by name, or an annotation that does not
constrain values. None is silently ignored: if a schema with a keyword is accepted, a validator checks the answers of a
random model, which would violate an ignored keyword."""

import json

import httpx
import jsonschema
import pytest
from conftest import serving, small_model
from test_structured_output import ENDS

OBJECT = {"type": "object", "properties": {"a": {"type": "null"}, "b": {"type": "null"}}}
NULLS = {"type": "array", "items": {"type": "null"}, "maxItems": 4}

# Each keyword with a schema that most answers of its type would violate if the keyword were ignored.
HELD = {
    "type": {"type": "boolean"},
    "enum": {"enum": [1, "x"]},
    "const": {"const": [None]},
    "anyOf": {"anyOf": [{"type": "null"}, {"const": 3}]},
    "oneOf": {"oneOf": [{"type": "null"}, {"type": "boolean"}]},
    "allOf": {"allOf": [{"type": "null"}]},
    "$ref": {"$ref": "#/$defs/x", "$defs": {"x": {"type": "null"}}},
    "definitions": {"$ref": "#/definitions/x", "definitions": {"x": {"type": "null"}}},
    "$defs": {"$defs": {"x": {"const": 1}}, "anyOf": [{"$ref": "#/$defs/x"}]},
    "properties": {"properties": {"a": {"const": 1}}, "required": ["a"]},
    "required": {**OBJECT, "required": ["a", "b"]},
    "additionalProperties": {"type": "object", "additionalProperties": {"type": "null"}, "maxProperties": 2},
    "patternProperties": {
        "type": "object",
        "properties": {"x": {"type": "null"}},
        "patternProperties": {"^x": {"type": ["null", "boolean"]}, "[0-9]$": {"const": True}},
        "additionalProperties": False,
        "maxProperties": 2,
    },
    "propertyNames": {
        "type": "object",
        "propertyNames": {"enum": ["p", "q"]},
        "additionalProperties": {"type": "null"},
    },
    "minProperties": {**OBJECT, "minProperties": 2},
    "maxProperties": {"type": "object", "additionalProperties": {"type": "null"}, "maxProperties": 1},
    "items": {"type": "array", "items": {"type": "null"}, "minItems": 1, "maxItems": 2},
    "prefixItems": {"type": "array", "prefixItems": [{"type": "null"}], "items": False},
    "additionalItems": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "array",
        "items": [{"type": "null"}],
        "additionalItems": False,
    },
    "minItems": {**NULLS, "minItems": 3},
    "maxItems": {**NULLS, "maxItems": 1},
    "minLength": {"type": "string", "minLength": 30, "maxLength": 40},
    "maxLength": {"type": "string", "maxLength": 1},
    "pattern": {"type": "string", "pattern": "^a[0-9]$"},
    "format": {"type": "string", "format": "ipv4"},
    "minimum": {"type": "integer", "minimum": 100},
    "maximum": {"type": "integer", "maximum": -100},
    "exclusiveMinimum": {"type": "integer", "exclusiveMinimum": 41, "maximum": 43},
    "exclusiveMaximum": {"type": "integer", "minimum": 41, "exclusiveMaximum": 43},
    "multipleOf": {"type": "integer", "multipleOf": 7},
    "unevaluatedItems": {
        "type": "array",
        "prefixItems": [{"type": "null"}],
        "unevaluatedItems": {"type": "null"},
        "maxItems": 3,
    },
    "unevaluatedProperties": {"type": "object", "unevaluatedProperties": {"type": "null"}, "maxProperties": 2},
    "not": {"type": "string", "maxLength": 2, "not": {"enum": ["", "a", "e"]}},
    "if": {
        "type": "object",
        "properties": {"k": {"enum": ["x", "y"]}, "n": {"type": "null"}},
        "required": ["k"],
        "if": {"properties": {"k": {"const": "x"}}},
        "then": {"required": ["n"]},
    },
    "then": {"if": {"type": "null"}, "then": {"const": None}, "else": {"const": 1}},
    "else": {"if": {"const": 1}, "then": {"const": 1}, "else": {"const": None}},
    "dependentRequired": {**OBJECT, "dependentRequired": {"a": ["b"]}},
    "dependentSchemas": {**OBJECT, "dependentSchemas": {"a": {"required": ["b"]}}},
    "dependencies": {**OBJECT, "dependencies": {"a": ["b"]}},
    "uniqueItems": {"type": "array", "items": {"enum": [1, 2]}, "uniqueItems": True},
    "contains": {"type": "array", "items": {"type": ["null", "boolean"]}, "contains": {"type": "null"}, "maxItems": 3},
    "minContains": {"type": "array", "contains": {"type": "null"}, "minContains": 2, "maxItems": 2},
    "maxContains": {
        "type": "array",
        "items": {"enum": [1, 2]},
        "contains": {"const": 1},
        "maxContains": 1,
        "maxItems": 4,
    },
}
REFUSED = {"$dynamicRef": {"$dynamicRef": "#x"}, "$recursiveRef": {"$recursiveRef": "#"}}
ANNOTATIONS = [
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "$comment",
    "$schema",
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
    "x-anything",
]
# Keywords that are supported only in part; uses beyond that part are refused by name.
BEYOND = [
    ("pattern", {"type": "string", "pattern": "(?=a)b"}),
    ("multipleOf", {"type": "number", "multipleOf": 0.001}),
    ("uniqueItems", {"type": "array", "items": {"type": "string"}, "uniqueItems": True}),
    ("not", {"type": "string", "not": {"pattern": "(^a|b)"}}),
    ("oneOf", {"oneOf": [{"type": "integer"}, {"multipleOf": 2}]}),
    ("patternProperties", {"properties": {"a": {}}, "patternProperties": {"^(?!a)": {}}}),
    ("minProperties", {"type": "object", "additionalProperties": True, "minProperties": 3}),
    ("minLength", {"type": "string", "pattern": "^a$", "minLength": 3}),
    ("$ref", {"$ref": "https://example.org/x"}),
    ("maxLength", {"type": "string", "maxLength": 30000}),
]


@pytest.fixture(scope="module")
def http():
    with (
        serving(small_model(), "--served-model-name", "small") as server,
        httpx.Client(base_url=server.url, timeout=120) as client,
    ):
        if (
            "no grammars"
            in client.post("/v1/completions", json={"prompt": "a", "max_tokens": 1, "guided_regex": "a"}).text
        ):
            pytest.skip("this build has no XGrammar")
        yield client


def ask(http, schema, seed=0):
    return http.post(
        "/v1/completions",
        json={
            "prompt": "Once",
            "temperature": 1,
            "seed": seed,
            "max_tokens": 150,
            "logit_bias": ENDS,
            "guided_json": schema,
        },
    )


@pytest.mark.parametrize("keyword", HELD)
def test_what_is_held_holds(http, keyword):
    schema, wholes = HELD[keyword], 0
    for seed in range(40):
        if seed >= 8 and wholes:  # whether an answer ends in time is random
            break
        answer = ask(http, schema, seed)
        assert answer.status_code == 200, answer.text
        choice = answer.json()["choices"][0]
        if choice["finish_reason"] == "stop":
            jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)(
                schema, format_checker=jsonschema.FormatChecker()
            ).validate(json.loads(choice["text"]))
            wholes += 1
    assert wholes, "no answer was whole"


@pytest.mark.parametrize("keyword, schema", [*REFUSED.items(), *BEYOND], ids=str)
def test_what_is_not_held_is_refused_by_its_name(http, keyword, schema):
    for inside in (
        schema,
        {"type": "array", "items": schema},
        {"type": "object", "properties": {"deep": {"anyOf": [schema, {"type": "null"}]}}},
    ):
        answer = ask(http, inside)
        assert answer.status_code == 400 and answer.json()["error"]["code"] == "invalid_grammar", (inside, answer.text)
        named = "contains" if keyword in ("minContains", "maxContains") else keyword  # both only modify it
        assert f"'{named}'" in answer.text, (inside, answer.text)


@pytest.mark.parametrize("keyword", ANNOTATIONS)
def test_an_annotation_changes_nothing(http, keyword):
    schema = {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]}
    value = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "contentSchema": {"not": {}},
        "examples": [{"not": {}}],
    }.get(keyword, "x")
    assert ask(http, {**schema, keyword: value}).json()["choices"] == ask(http, schema).json()["choices"]
