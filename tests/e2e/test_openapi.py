"""/openapi.json is a valid document with every field that the routes accept, and real bodies validate against it."""

import json
import re

import httpx
import jsonschema
import pytest
from conftest import ROOT, serving, small_model

SAMPLES = ROOT / "src/server/sample_bodies.h"


@pytest.fixture(scope="module")
def document():
    with serving(small_model()) as server:
        return httpx.get(server.url + "/openapi.json").json()


def samples():
    """Returns the (path, body) pairs of sample_bodies.h, which are accepted (route_bodies_test.cc)."""
    for path, body in re.findall(r'\{"(/[^"]*)",\s*R"\((.*?)\)"', SAMPLES.read_text(), re.S):
        yield path, json.loads(body)


def schema_of(document, path):
    return document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]


def test_the_document_is_openapi(document):
    assert document["openapi"].startswith("3.1") and len(document["paths"]) > 40
    found = 0
    for path, operations in document["paths"].items():
        for operation in operations.values():
            assert operation["responses"] and operation["operationId"]
            if "requestBody" in operation:
                schema = operation["requestBody"]["content"]["application/json"]["schema"]
                jsonschema.Draft202012Validator.check_schema(schema)
                assert schema["type"] == "object" and schema["properties"], path
                found += 1
    assert found > 20
    names = [operation["operationId"] for operations in document["paths"].values() for operation in operations.values()]
    assert len(set(names)) == len(names)


# Accepted without effect (docs/clients.md).
IGNORED = {
    "metadata",
    "keep_alive",
    "flash_attention",
    "context_length",
    "name",
    "verbose",
    "cache_prompt",
    "max_tokens_per_doc",
}


def test_every_field_of_an_accepted_body_is_there_and_validates(document):
    count = 0
    for path, body in samples():
        schema = schema_of(document, path)
        left = set(body) - set(schema["properties"])
        assert left <= IGNORED, (path, left)
        jsonschema.validate(body, schema, cls=jsonschema.Draft202012Validator)
        count += 1
    assert count > 30


@pytest.mark.parametrize(
    "change",
    [
        {"temperature": -1},
        {"temperature": "hot"},
        {"stream": "yes"},
        {"top_p": 2},
        {"n": 0},
        {"n": 1.5},
        {"messages": None},
        {"messages": "a"},
        {"stop": 5},
        {"stream_options": {"include_usage": 3}},
        {"max_tokens": 0.5},
    ],
)
def test_what_the_server_refuses_does_not_validate(document, change):
    body = {"messages": [{"role": "user", "content": "a"}], **change}
    assert list(jsonschema.Draft202012Validator(schema_of(document, "/v1/chat/completions")).iter_errors(body)), change


def test_null_is_as_good_as_absent(document):
    body = {
        "messages": [{"role": "user", "content": "a"}],
        "temperature": None,
        "stop": None,
        "tools": None,
        "stream_options": None,
    }
    jsonschema.validate(body, schema_of(document, "/v1/chat/completions"))
