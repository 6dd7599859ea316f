"""Names, paths and versions that clients check before the first request: aliases, base URLs with and without /v1, the
model lists of Ollama and LM Studio, Host names, and the default reasoning effort of a template."""

import json
import subprocess

import httpx
import pytest
from conftest import binary, serving, small_model

ASK = {"messages": [{"role": "user", "content": "a"}], "max_tokens": 2}


@pytest.fixture(scope="module")
def named(tmp_path_factory):
    template = tmp_path_factory.mktemp("names") / "thinks.jinja"
    template.write_text(
        "{{ messages[0].content }}{% if enable_thinking is defined %}{{ 'Y' if enable_thinking else 'N' }}{% endif %}"
        "{{ reasoning_effort or '' }}"
    )
    with serving(
        small_model(),
        "--chat-template",
        str(template),
        "--default-chat-template-kwargs",
        '{"enable_thinking": false}',
        "--served-model-name",
        "small",
        "also",
        "claude-*",
        "gpt-*-mini",
    ) as server:
        yield server


def test_several_names_and_patterns(named):
    for name, status in [
        ("small", 200),
        ("also", 200),
        ("claude-haiku-4-5", 200),
        ("claude-", 200),
        ("gpt-9-mini", 200),
        ("gpt-9", 404),
        ("a-claude-x", 404),
        ("claude", 404),
        ("*", 404),
    ]:
        answer = httpx.post(named.url + "/v1/chat/completions", json={"model": name, **ASK})
        assert answer.status_code == status, name
        assert status == 404 or answer.json()["model"] == "small"
    assert [row["id"] for row in httpx.get(named.url + "/v1/models").json()["data"]] == ["small", "also"]
    messages = httpx.post(named.url + "/v1/messages", json={"model": "claude-opus", **ASK})
    assert messages.status_code == 200 and messages.json()["model"] == "small"


def test_any_name():
    with serving(small_model(), "--any-model-name") as server:
        answer = httpx.post(server.url + "/v1/completions", json={"model": "whatever", "prompt": "a", "max_tokens": 1})
        assert answer.status_code == 200 and answer.json()["model"] == "small"


def test_paths_with_and_without_the_version(named):
    for path in ["/chat/completions", "/v1/v1/chat/completions", "/messages", "/v1/api/chat"]:
        assert httpx.post(named.url + path, json={"model": "small", "stream": False, **ASK}).status_code == 200, path
    assert httpx.get(named.url + "/models").json() == httpx.get(named.url + "/v1/models").json()
    assert httpx.get(named.url + "/models/small").json()["id"] == "small"
    assert httpx.get(named.url + "/chat/completions").headers["allow"] == "POST, OPTIONS"
    assert httpx.get(named.url + "/v1/nowhere").status_code == 404


def test_versions_and_lists(named):
    ollama = [int(part) for part in httpx.get(named.url + "/api/version").json()["version"].split(".")]
    assert ollama >= [0, 13, 4]
    assert (
        httpx.get(named.url + "/version").json()["version"]
        == subprocess.check_output([binary(), "--version"], text=True).split()[-1]
    )
    rows = httpx.get(named.url + "/api/v1/models").json()["models"]
    assert [row["key"] for row in rows] == ["small", "also"] and rows[0]["loaded_instances"]
    assert [row["id"] for row in httpx.get(named.url + "/api/v0/models").json()["data"]] == ["small", "also"]
    assert httpx.get(named.url + "/api/v0/models/also").json()["state"] == "loaded"


def test_prefixes_of_other_services(named):
    """Paths that clients of Groq, OpenRouter and LM Studio use."""
    for prefix in ["/openai/v1", "/api/v1", "/api/v0"]:
        assert httpx.post(named.url + prefix + "/chat/completions", json=ASK).status_code == 200
    assert httpx.get(named.url + "/openai/v1/models").json()["object"] == "list"
    everything = httpx.post(named.url + "/api/v0/chat/completions", json={**ASK, "max_tokens": -1, "stop": ["e"]})
    assert everything.status_code == 200, everything.text


@pytest.mark.parametrize(
    "host, status",
    [
        ("0.0.0.0:8000", 200),
        ("host.docker.internal:8000", 200),
        ("192.168.7.7", 200),
        ("evil.example:8000", 403),
        ("0.0.0.0.evil.example", 403),
    ],
)
def test_hosts_that_nobody_can_rebind(named, host, status):
    assert httpx.get(named.url + "/v1/models", headers={"host": host}).status_code == status


def shown(server, **fields):
    """Returns the prompt that the template rendered."""
    body = httpx.post(server.url + "/apply-template", json={"messages": ASK["messages"], **fields})
    assert body.status_code == 200, body.text
    return body.json()["prompt"]


@pytest.mark.parametrize(
    "fields, prompt",
    [
        ({}, "aN"),
        ({"chat_template_kwargs": {"enable_thinking": True}}, "aY"),
        ({"enable_thinking": True}, "aY"),
        ({"chat_template_kwargs": {"reasoning_effort": "low"}}, "aNlow"),
        ({"thinking": {"type": "enabled"}}, "aY"),
        ({"thinking": {"type": "disabled"}}, "aN"),
        ({"reasoning": {"enabled": True}}, "aY"),
        ({"reasoning": {"effort": "high"}}, "aNhigh"),
        ({"reasoning": {"effort": "none"}}, "aNnone"),
        ({"thinking": {"type": "auto"}}, "aN"),
    ],
)
def test_a_server_says_how_much_is_reasoned_and_a_request_may_say_otherwise(named, fields, prompt):
    assert shown(named, **fields) == prompt


@pytest.mark.parametrize(
    "fields, param",
    [({"thinking": {"type": "much"}}, "thinking.type"), ({"reasoning": {"enabled": 3}}, "reasoning.enabled")],
)
def test_what_is_wrong_is_named(named, fields, param):
    answer = httpx.post(named.url + "/v1/chat/completions", json={**ASK, **fields})
    assert answer.status_code == 400 and answer.json()["error"]["param"] == param


@pytest.mark.parametrize("text", ["[]", "{", '{"messages": []}'])
def test_template_names_that_cannot_be(text):
    done = subprocess.run(
        [binary(), "serve", str(small_model()), "--default-chat-template-kwargs", text],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2 and "--default-chat-template-kwargs" in done.stderr


def test_ollama_tells_log_probabilities(named):
    lines = httpx.post(
        named.url + "/api/chat",
        json={
            "model": "small",
            "messages": ASK["messages"],
            "logprobs": True,
            "top_logprobs": 2,
            "options": {"num_predict": 3, "temperature": 0, "ignore_eos": True},
        },
    ).text.splitlines()
    tokens = [token for line in lines for token in json.loads(line).get("logprobs", [])]
    assert len(tokens) == 3 and all(token["logprob"] <= 0 and len(token["top_logprobs"]) == 2 for token in tokens)
