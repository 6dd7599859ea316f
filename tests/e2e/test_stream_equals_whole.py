"""Property test: for any combination of fields of a completion, its stream adds up to the whole answer."""

import json
import random

import pytest

FIELDS = {
    "n": [2, 3],
    "logprobs": [0, 1, 5],
    "echo": [True],
    "stop": ["\n", [" the", "is"], "Paris. It"],
    "return_token_ids": [True],
    "min_tokens": [1],
    "ignore_eos": [True],
    "logit_bias": [{"28": -100}, {"28": 100}],
    "bad_words": [["Paris"]],
    "allowed_token_ids": [[10, 20, 30, 40]],
    "top_k": [1, 40, -1],
    "top_p": [0.5],
    "min_p": [0.1],
    "repetition_penalty": [1.3],
    "include_stop_str_in_output": [True],
    "skip_special_tokens": [False],
    "stop_token_ids": [[28, 30]],
    "prompt": [["a", "bc"], [[1, 2, 3], [4, 5]], [5, 6, 7], "👍é中 text"],
}


def chunks(http, body):
    with http.stream(
        "POST", "/v1/completions", json={**body, "stream": True, "stream_options": {"include_usage": True}}
    ) as response:
        assert response.status_code == 200
        lines = [line[6:] for line in response.iter_lines() if line.startswith("data: ")]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


@pytest.mark.parametrize("seed", range(24))
def test_a_stream_adds_up(http, seed):
    rng = random.Random(seed)
    body = {
        "prompt": "The capital of France is",
        "max_tokens": rng.choice([1, 5, 16]),
        "temperature": 0.8,
        "seed": seed,
    }
    body |= {name: rng.choice(values) for name, values in FIELDS.items() if rng.random() < 0.2}
    whole = http.post("/v1/completions", json=body).json()
    choices = whole["choices"]
    text, ends, ids = {}, {}, {}
    events = chunks(http, body)
    for event in events:
        for choice in event["choices"]:
            index = choice["index"]
            text[index] = text.get(index, "") + choice["text"]
            ids.setdefault(index, []).extend(choice.get("token_ids") or [])
            if choice["finish_reason"]:
                assert index not in ends, "a choice ended twice"
                ends[index] = choice["finish_reason"]
    assert [text[choice["index"]] for choice in choices] == [choice["text"] for choice in choices]
    assert [ends[choice["index"]] for choice in choices] == [choice["finish_reason"] for choice in choices]
    if "return_token_ids" in body:
        assert [ids[choice["index"]] for choice in choices] == [choice["token_ids"] for choice in choices]
    assert events[-1]["choices"] == [] and events[-1]["usage"]["total_tokens"] == whole["usage"]["total_tokens"]
    last = next(event for event in reversed(events) if event["choices"])
    assert last["timings"] == events[-1]["usage"]["timings"] and not any(
        "timings" in event for event in events if event is not last
    )
    for timings in (last["timings"], whole["usage"]["timings"]):
        assert (
            timings["prompt_ms"] > 0
            and timings["queue_ms"] >= 0
            and timings["predicted_n"] == whole["usage"]["completion_tokens"]
        )
