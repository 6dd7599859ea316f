"""Validates JSON against schemas of OpenAI's OpenAPI file."""

import copy
import json

import jsonschema


def heed_nullable(node):
    """Converts OpenAPI 3.0's `nullable: true`, which the file still uses, to JSON Schema."""
    if isinstance(node, list):
        return [heed_nullable(entry) for entry in node]
    if not isinstance(node, dict):
        return node
    node = {key: heed_nullable(value) for key, value in node.items()}
    if node.pop("nullable", False) is True:
        return {"anyOf": [node, {"type": "null"}]}
    return node


def nullable(schema):
    return {"anyOf": [schema, {"type": "null"}]}


class Validator:
    def __init__(self, path):
        components = heed_nullable(json.loads(path.read_text())["components"])
        schemas = components["schemas"]
        if "CreateCompletionResponse" in schemas:
            # The file has one schema for whole and streamed completions. In a stream, OpenAI itself sends null until
            # a choice ends. The first token of an echoed prompt has no log-probability.
            chunk = copy.deepcopy(schemas["CreateCompletionResponse"])
            choice = chunk["properties"]["choices"]["items"]["properties"]
            choice["finish_reason"] = nullable(choice["finish_reason"])
            schemas["CompletionChunk"] = chunk
            echo = copy.deepcopy(schemas["CreateCompletionResponse"])
            logprobs = echo["properties"]["choices"]["items"]["properties"]["logprobs"]["anyOf"][0]["properties"]
            for name in ("token_logprobs", "top_logprobs"):
                logprobs[name]["items"] = nullable(logprobs[name]["items"])
            schemas["EchoedCompletion"] = echo
        self._components = components
        self._validators = {}

    def __call__(self, name, value):
        if name not in self._validators:
            schema = {"$ref": f"#/components/schemas/{name}", "components": self._components}
            self._validators[name] = jsonschema.Draft202012Validator(schema)
        if hasattr(value, "model_dump"):
            value = value.model_dump(exclude_unset=True)
        error = jsonschema.exceptions.best_match(self._validators[name].iter_errors(value))
        assert error is None, f"not a valid {name}: {error.message} at {list(error.absolute_path)} of {value}"
        return value
