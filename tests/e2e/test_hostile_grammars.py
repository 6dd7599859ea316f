"""500 hostile schemas, expressions and grammars: each is served or refused by name within seconds, and other clients
get the same answers as before."""

import concurrent.futures
import copy
import json
import os
import random
import threading
import time

import httpx
import pytest
from conftest import serving, shared_data, small_model

BEASTS = [
    {
        "type": "array",
        "items": {"type": "array", "items": {"type": "string", "maxLength": 19999}, "maxItems": 19999},
        "maxItems": 19999,
    },
    {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(280)}},
    {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(1500)}},
    {"type": "object", "additionalProperties": True, "minProperties": 1, "maxProperties": 5000},
    {"$ref": "#"},
    {"anyOf": [{"$ref": "#"}]},
    {"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"type": "null"}]}}, "$ref": "#/$defs/a"},
    {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
    {"enum": [str(i) * 5 for i in range(5000)]},
    {"type": "integer", "minimum": -9e15, "maximum": 9e15},
    {"type": "number", "minimum": 1e-300, "maximum": 1e300},
    {"type": "string", "pattern": "(a*)*b"},
    {"type": "string", "pattern": "(x+x+)+y"},
    {"type": "string", "pattern": "((a{1,100}){1,100}){1,100}"},
    {"type": "string", "pattern": "[" * 500},
    {"type": "string", "pattern": "(" * 5000},
    {"type": "string", "pattern": "a{1,1000000}"},
    {"type": "string", "minLength": 19999, "maxLength": 20000},
    {
        "not": {
            "oneOf": [
                {"properties": {f"p{i}{j}": {"not": {"anyOf": [{"type": "string"}, {"minimum": j}]}} for j in range(8)}}
                for i in range(8)
            ]
        }
    },
    {"oneOf": [{"properties": {f"p{j}": {"minimum": i} for j in range(6)}} for i in range(40)]},
    {
        "$defs": {
            "a": {
                "oneOf": [
                    {"properties": {"x": {"$ref": "#/$defs/a"}}},
                    {"properties": {"y": {"not": {"$ref": "#/$defs/a"}}}},
                ]
            }
        },
        "$ref": "#/$defs/a",
    },
    {
        "type": "object",
        "patternProperties": {f"[{c}-z]{{1,30}}$": {"type": "null"} for c in "abcdefghijklmnop"},
        "additionalProperties": True,
    },
    {"allOf": [{"pattern": f"(a|b)*{c}(a|b){{12}}$"} for c in "abab"]},
    {"type": "string", "not": {"pattern": "(a|b)*a(a|b){14}$"}},
    {"type": "string", "not": {"enum": [f"{i:05}" for i in range(3000)]}},
    {"type": "array", "items": {"enum": list(range(600))}, "uniqueItems": True},
    {"not": {"not": {"not": {"not": {"not": {"not": {"not": {"type": "string"}}}}}}}},
]
EXPRESSIONS = [
    "foo**",
    "(" * 9000,
    "((((a{1,99}){1,99}){1,99}){1,99})",
    "a{99999999999999999999}",
    "[^\\x00-\\xff]",
    "(a|a)*" * 300,
    "\\",
    "[a-",
    "(?P<x",
    "(.*)(.*)(.*)(.*)(.*)z",
    "😀{1,500}",
    "(?:" * 2000 + ")" * 2000,
    "|" * 5000,
    ".{0,20000}",
    "\\u{110000}",
    "[\\d-\\w]",
]
GRAMMARS = [
    "root ::= root",
    'root ::= root root | "a"',
    "root ::= " + "(" * 20000,
    'root ::= "a"{1,1000000}',
    "root ::= a\n" * 3000,
    "root ::= [^]",
    'root ::= "\\x"',
    "::= ::= ::=",
    'root ::= "' + "a" * 60000 + '"',
    'root ::= (("a"*)*)*',
    'root ::= ""',
    "start: start",
    "start: /(/",
    'start: "a"~1..100000',
    "%import common.JSON\nstart: JSON",
    "start: " + "[" * 3000,
]


def mutate(value, draw, depth=0):
    """Replaces the value in one place."""
    words = [
        "type",
        "properties",
        "items",
        "$ref",
        "anyOf",
        "pattern",
        "enum",
        "required",
        "minLength",
        "#",
        "#/",
        "object",
        "string",
    ]
    strange = [
        None,
        True,
        -1,
        2**63,
        1e308,
        "",
        "\x00",
        [],
        {},
        [[]],
        {"$ref": "#"},
        "(",
        draw.choice(words),
        {"type": draw.choice(words)},
    ]
    if depth > 6 or draw.random() < 0.25 or not isinstance(value, (dict, list)) or not value:
        return draw.choice(strange)
    value = copy.copy(value)
    if isinstance(value, list):
        at = draw.randrange(len(value))
        value[at] = mutate(value[at], draw, depth + 1)
    else:
        at = draw.choice(list(value))
        if draw.random() < 0.2:
            value[draw.choice(words)] = value.pop(at)
        else:
            value[at] = mutate(value[at], draw, depth + 1)
    return value


def schemas():
    data = shared_data()
    if data is not None and (data / "conformance/json_schema_draft2020_draft7.jsonl").exists():
        return [json.loads(line)["schema"] for line in (data / "conformance/json_schema_draft2020_draft7.jsonl").open()]
    from test_structured_output import OWN_CASES

    return OWN_CASES


def bodies(count):
    draw, known = random.Random(5), schemas()
    made = (
        [{"guided_json": beast} for beast in BEASTS]
        + [{"guided_regex": e} for e in EXPRESSIONS]
        + [{"grammar": g} for g in GRAMMARS]
    )
    for depth in (60, 200, 5000):
        made.append({"guided_json": '{"items":' * depth + "{}" + "}" * depth})
    while len(made) < count:
        kind = draw.random()
        if kind < 0.6:
            made.append({"guided_json": mutate(draw.choice(known), draw)})
        elif kind < 0.8:
            made.append(
                {
                    "guided_regex": "".join(
                        draw.choice("ab()[]{}|*+?.\\^$-,0123dwsSD") for _ in range(draw.randrange(1, 60))
                    )
                }
            )
        else:
            text = draw.choice(GRAMMARS[:3] + ['root ::= "a" b\nb ::= [a-z]+ | "(" root ")"'])
            at = draw.randrange(len(text))
            made.append({"grammar": text[:at] + draw.choice('"()|*:=[]\\ ab\n') + text[at + draw.randrange(3) :]})
    return made


def test_hostile_grammars_cost_their_sender_alone():
    plain = {"prompt": "Once upon a time", "max_tokens": 16, "temperature": 0, "ignore_eos": True}
    with (
        serving(small_model(), "--served-model-name", "small") as server,
        httpx.Client(base_url=server.url, timeout=120) as http,
    ):
        if (
            "no grammars"
            in http.post("/v1/completions", json={"prompt": "a", "max_tokens": 1, "guided_regex": "a"}).text
        ):
            pytest.skip("this build has no XGrammar")
        wanted = http.post("/v1/completions", json=plain).json()["choices"]
        done, waits = threading.Event(), []

        def neighbour():
            with httpx.Client(base_url=server.url, timeout=120) as client:
                while not done.is_set():
                    begin = time.monotonic()
                    assert client.post("/v1/completions", json=plain).json()["choices"] == wanted
                    waits.append(time.monotonic() - begin)

        beside = threading.Thread(target=neighbour)
        beside.start()

        def attack(fields):
            answer = http.post("/v1/completions", json={"prompt": "a", "max_tokens": 4, "seed": 1, **fields})
            assert answer.status_code in (200, 400, 429), (str(fields)[:300], answer.status_code, answer.text[:300])
            if answer.status_code == 400:
                error = answer.json()["error"]
                assert error["message"] and "/" + "root" not in error["message"] and ".cc:" not in error["message"], (
                    error
                )
            return answer.status_code

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            codes = list(pool.map(attack, bodies(500)))
        done.set()
        beside.join()
        assert waits and max(waits) < 30, max(waits)
        assert codes.count(429) < 50 and codes.count(200) > 20 and codes.count(400) > 100, {
            c: codes.count(c) for c in set(codes)
        }
        assert http.get("/health").status_code == 200
        assert http.post("/v1/completions", json=plain).json()["choices"] == wanted


def test_a_server_is_idle_once_it_has_answered_what_it_refused():
    """Nothing is computed for a request that has been answered: CPU time stops, and others are served at once."""

    def processor_s(server):
        return sum(
            int(field) for field in open(f"/proc/{server.process.pid}/stat").read().rpartition(")")[2].split()[11:13]
        ) / os.sysconf("SC_CLK_TCK")

    with (
        serving(small_model(), "--served-model-name", "small") as server,
        httpx.Client(base_url=server.url, timeout=120) as http,
    ):
        if (
            "no grammars"
            in http.post("/v1/completions", json={"prompt": "a", "max_tokens": 1, "guided_regex": "a"}).text
        ):
            pytest.skip("this build has no XGrammar")

        def send(schema):
            return http.post(
                "/v1/completions", json={"prompt": "a", "max_tokens": 1, "guided_json": schema}
            ).status_code

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            codes = list(pool.map(send, BEASTS * 2))
        assert codes.count(400) > len(BEASTS) / 2, codes
        for _ in range(20):  # up to 20 tries, on a busy machine
            before = processor_s(server)
            time.sleep(1)
            spent = processor_s(server) - before
            if spent < 0.1:
                break
        assert spent < 0.1, "the processor is busy, and nobody waits"
        assert send({"type": "boolean"}) == 200
