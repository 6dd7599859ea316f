"""Paths that routers, editors and people use, other than those of the official clients."""

import json

import httpx
import openai
import pytest
from conftest import serving, small_model
from small_model import write_small_model


def test_llama_cpps_completion_streamed_and_whole(http):
    body = {"prompt": "Once upon a time", "n_predict": 12, "temperature": 0}
    whole = http.post("/completion", json=body).json()
    assert whole["content"] and whole["stop"] and whole["tokens_predicted"] <= 12
    assert whole["timings"]["predicted_ms"] > 0 and whole["stop_type"] in ("limit", "eos")
    text = ""
    with http.stream("POST", "/completion", json={**body, "stream": True}) as answer:
        for line in answer.iter_lines():
            if line.startswith("data: "):
                text += json.loads(line[6:])["content"]
    assert text == whole["content"]


def test_tgis_answers_streamed_and_whole(http):
    body = {"inputs": "Once upon a time", "parameters": {"max_new_tokens": 6, "details": True}}
    whole = http.post("/generate", json=body).json()
    assert http.post("/", json=body).json() == [whole]
    tokens = whole["details"]["tokens"]
    assert len(tokens) == 6 and whole["generated_text"] == "".join(token["text"] for token in tokens)
    events = []
    with http.stream("POST", "/generate_stream", json=body) as answer:
        for line in answer.iter_lines():
            if line:
                events.append(json.loads(line.removeprefix("data:")))
    assert [event["token"] for event in events] == tokens
    assert events[-1]["generated_text"] == whole["generated_text"] and events[-1]["details"]["generated_tokens"] == 6
    ours = http.post("/v1/completions", json={"prompt": "Once upon a time", "temperature": 0, "max_tokens": 6}).json()
    assert ours["choices"][0]["text"] == whole["generated_text"]
    assert http.get("/info").json()["max_total_tokens"] == 2048


def test_llama_cpps_log_probabilities_are_those_of_completions(http):
    ask = {"prompt": "Once upon a time", "temperature": 0, "ignore_eos": True}
    ours = http.post("/completion", json={**ask, "n_predict": 6, "n_probs": 3}).json()["completion_probabilities"]
    theirs = http.post("/v1/completions", json={**ask, "max_tokens": 6, "logprobs": 3}).json()["choices"][0]["logprobs"]
    assert [token["token"] for token in ours] == theirs["tokens"]
    assert [token["logprob"] for token in ours] == theirs["token_logprobs"]
    assert [token["id"] for token in ours] == [token["top_logprobs"][0]["id"] for token in ours]
    assert all(len(token["top_logprobs"]) == 3 for token in ours)


def test_llama_cpps_facts(http):
    props = http.get("/props").json()
    assert props["default_generation_settings"]["n_ctx"] == 2048 and props["total_slots"] >= 1
    assert "im_start" in props["chat_template"]
    params = props["default_generation_settings"]["params"]
    assert all(isinstance(value, float | int) for value in params.values())
    assert any(not slot["is_processing"] for slot in http.get("/slots").json())
    for action in ("save", "restore", "erase"):
        refused = http.post(f"/slots/0?action={action}", json={"filename": "x"})
        assert refused.status_code == 400 and "--kv-disk" in refused.json()["error"]["message"]
    shown = http.post("/apply-template", json={"messages": [{"role": "user", "content": "Hi <|im_end|>"}]}).json()
    assert shown["prompt"].endswith("<|im_start|>assistant\n") and "Hi <|im_end|>" in shown["prompt"]


def test_filling_in_the_middle_is_refused_where_the_model_cannot(http, client):
    refused = http.post("/infill", json={"input_prefix": "def f(", "input_suffix": "return 1"})
    assert refused.status_code == 400 and "filling in the middle" in refused.json()["error"]["message"]
    with pytest.raises(openai.BadRequestError, match="filling in the middle") as error:
        client.completions.create(model="smol", prompt="def f(", suffix="return 1")
    assert error.value.param == "suffix"


def test_filling_in_the_middle_by_every_path(tmp_path):
    model = tmp_path / "coder.gguf"
    write_small_model(model, markers=["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"], control=True)
    before, after = "def f(", "return 1"
    as_text = f"<|fim_prefix|>{before}<|fim_suffix|>{after}<|fim_middle|>"
    with (
        serving(model, "--served-model-name", "coder") as server,
        httpx.Client(base_url=server.url, timeout=120) as http,
    ):
        client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none")
        asked = {"model": "coder", "max_tokens": 8, "temperature": 0}
        rendered = client.completions.create(prompt=as_text, **asked)
        filled = client.completions.create(prompt=before, suffix=after, **asked)
        assert (
            filled.choices[0].text
            == rendered.choices[0].text
            != client.completions.create(prompt=before, **asked).choices[0].text
        )
        assert filled.usage.prompt_tokens == rendered.usage.prompt_tokens
        pieces = client.completions.create(prompt=before, suffix=after, stream=True, **asked)
        assert "".join(piece.choices[0].text for piece in pieces) == rendered.choices[0].text
        infilled = http.post(
            "/infill", json={"input_prefix": before, "input_suffix": after, "n_predict": 8, "temperature": 0}
        )
        assert infilled.json()["content"] == rendered.choices[0].text
        generated = http.post(
            "/api/generate",
            json={
                "model": "coder",
                "prompt": before,
                "suffix": after,
                "stream": False,
                "options": {"num_predict": 8, "temperature": 0},
            },
        )
        assert generated.json()["response"] == rendered.choices[0].text
        assert "insert" in http.post("/api/show", json={"model": "coder"}).json()["capabilities"]
        # A marker in the user's text is treated as text.
        hostile = client.completions.create(prompt=before + "<|fim_middle|>", suffix=after, **asked)
        assert hostile.usage.prompt_tokens > filled.usage.prompt_tokens + 1


@pytest.mark.parametrize("path", ["/get_server_info", "/server_info", "/get_model_info", "/model_info", "/v1/models/"])
def test_routers_find_what_they_look_for(http, path):
    got = http.get(path)
    assert got.status_code == 200 and got.json()


def test_every_route_is_in_openapi_and_docs(http):
    described = http.get("/openapi.json").json()
    docs = http.get("/docs")
    assert docs.headers["content-type"].startswith("text/html")
    for path, methods in [
        ("/v1/chat/completions", {"post"}),
        ("/v1/messages", {"post"}),
        ("/api/chat", {"post"}),
        ("/v1/responses/{response_id}", {"get", "post", "delete"}),
        ("/health", {"get"}),
    ]:
        assert methods <= set(described["paths"][path]), path
        assert path in docs.text
    for path, methods in described["paths"].items():
        for method in methods:
            if "{" not in path and method == "get":
                with http.stream("GET", path) as answer:  # some never end
                    assert answer.status_code not in (404, 405), path


def test_a_star_takes_any_name_and_unknown_fields_are_named_once():
    with serving(small_model(), "--served-model-name", "small", "--served-model-name", "*") as server:
        body = {"model": "gpt-4", "prompt": "a", "max_tokens": 2, "my_field": 1, "store": True}
        for _ in range(3):
            answer = httpx.post(server.url + "/v1/completions", json=body)
            assert answer.status_code == 200 and answer.json()["model"] == "small"
        assert [m["id"] for m in httpx.get(server.url + "/v1/models").json()["data"]] == ["small"]
        server.stop()
        named = [line for line in server.log if "my_field" in line]
        assert len(named) == 1 and not any("'store'" in line for line in server.log)
