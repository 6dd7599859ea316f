"""Parallel sampling, best_of and beam search from a client's view, and a fork bomb among other requests."""

import json
import threading
import time

import httpx
import pytest
from conftest import serving, small_model

ASK = {
    "prompt": "Once upon a time",
    "max_tokens": 12,
    "use_beam_search": True,
    "n": 3,
    "beam_width": 4,
    "return_token_ids": True,
}


@pytest.fixture(scope="module")
def small(small_server):
    with httpx.Client(base_url=small_server.url, timeout=60) as http:
        yield http


def complete(http, **body):
    answer = http.post("/v1/completions", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def stream(http, path="/v1/completions", **body):
    with http.stream("POST", path, json={**body, "stream": True}) as answer:
        assert answer.status_code == 200
        events = [line.removeprefix("data: ") for line in answer.iter_lines() if line.startswith("data: ")]
    assert events[-1] == "[DONE]"
    return [json.loads(event) for event in events[:-1]]


def test_a_stop_string_ends_a_hypothesis_of_the_search(small):
    """A stop string of one token is equivalent to the token's id: other hypotheses, each scored up to its stop."""
    probe = complete(small, **{**ASK, "max_tokens": 6, "logprobs": 1})["choices"][0]
    token, text = probe["token_ids"][2], probe["logprobs"]["tokens"][2]
    by_id = complete(small, **ASK, stop_token_ids=[token])["choices"]
    by_text = complete(small, **ASK, stop=[text])["choices"]
    assert any(choice["finish_reason"] == "stop" for choice in by_text), by_text
    assert len({tuple(choice["token_ids"]) for choice in by_text}) == len(by_text), by_text
    stopped = {round(choice["cumulative_logprob"], 4) for choice in by_id if choice["stop_reason"] == token}
    assert stopped & {round(choice["cumulative_logprob"], 4) for choice in by_text if choice["stop_reason"] == text}, (
        by_id,
        by_text,
    )


def joined(events):
    """Returns {index: (text, ids, last choice)} of a stream."""
    out = {}
    for event in events:
        for choice in event["choices"]:
            text, ids, _ = out.get(choice["index"], ("", [], None))
            out[choice["index"]] = (text + choice["text"], ids + choice["token_ids"], choice)
    return out


def test_beams_come_ranked(small):
    choices = complete(small, **ASK)["choices"]
    assert [c["index"] for c in choices] == [0, 1, 2]
    assert len({tuple(c["token_ids"]) for c in choices}) == 3
    length = len(small.post("/tokenize", json={"prompt": ASK["prompt"]}).json()["tokens"])

    def score(choice):
        counted = len(choice["token_ids"]) - (choice["finish_reason"] == "stop")  # without the end of sequence
        return choice["cumulative_logprob"] / (length + counted)

    scores = [score(c) for c in choices]
    assert scores == sorted(scores, reverse=True)
    wider = complete(small, **{**ASK, "n": 4})["choices"]
    assert [c["token_ids"] for c in wider[:3]] == [c["token_ids"] for c in choices]


def test_a_stream_delivers_the_final_beams(small):
    whole = complete(small, **ASK)["choices"]
    events = stream(small, **ASK)
    assert not any("best_so_far" in event for event in events)
    streamed = joined(events)
    for choice in whole:
        text, ids, last = streamed[choice["index"]]
        assert (text, ids) == (choice["text"], choice["token_ids"])
        assert last["cumulative_logprob"] == choice["cumulative_logprob"]
        assert last["finish_reason"] == choice["finish_reason"]


def test_the_best_so_far_can_be_watched(small):
    whole = complete(small, **ASK, ignore_eos=True)["choices"]
    events = stream(small, **ASK, ignore_eos=True, stream_best_so_far=True, stream_options={"include_usage": True})
    seen = [event for event in events if "best_so_far" in event]
    assert seen, "at least one of eleven steps"
    assert all(
        event["choices"] == [] and len(event["best_so_far"]["token_ids"]) == event["best_so_far"]["num_tokens"]
        for event in seen
    )
    counts = [event["best_so_far"]["num_tokens"] for event in seen]
    assert counts == sorted(counts) and counts[-1] <= ASK["max_tokens"]
    assert [joined(events)[c["index"]][1] for c in whole] == [c["token_ids"] for c in whole]
    assert events[-1]["usage"]["completion_tokens"] == 3 * ASK["max_tokens"]


def test_a_chat_has_beams_too(server):
    with httpx.Client(base_url=server.url, timeout=60) as http:
        body = {
            "messages": [{"role": "user", "content": "Say a word."}],
            "max_tokens": 6,
            "use_beam_search": True,
            "n": 2,
        }
        whole = http.post("/v1/chat/completions", json=body).json()["choices"]
        assert [c["message"]["content"] for c in whole] and all(c["cumulative_logprob"] < 0 for c in whole)
        texts = ["", ""]
        for event in stream(http, "/v1/chat/completions", **body):
            for choice in event["choices"]:
                texts[choice["index"]] += choice["delta"].get("content") or ""
        assert texts == [c["message"]["content"] for c in whole]


def test_best_of_returns_the_likeliest(small):
    ask = {
        "prompt": "Once upon a time",
        "max_tokens": 8,
        "seed": 3,
        "temperature": 1,
        "ignore_eos": True,
        "logprobs": 0,
    }
    every = sorted(c["cumulative_logprob"] for c in complete(small, **ask, n=6)["choices"])
    best = [c["cumulative_logprob"] for c in complete(small, **ask, n=2, best_of=6)["choices"]]
    assert best == [every[-1], every[-2]]


@pytest.mark.parametrize(
    "field, value",
    [
        ("temperature", 0.5),
        ("top_p", 0.9),
        ("top_k", 5),
        ("min_p", 0.1),
        ("repetition_penalty", 1.2),
        ("presence_penalty", 0.5),
        ("frequency_penalty", -0.5),
        ("logit_bias", {"5": 1}),
        ("allowed_token_ids", [5]),
        ("bad_words", ["he"]),
        ("min_tokens", 2),
        ("beam_width", 2),
        ("beam_width", 129),
        ("beam_width", 0),
        ("best_of", 2),
        ("best_of", 257),
        ("n", 129),
        ("num_beam_groups", 3),
        ("diversity_penalty", 1.0),
        ("length_penalty", 11),
        ("early_stopping", "soon"),
    ],
)
def test_what_beam_search_cannot_do_is_refused_by_name(small, field, value):
    body = {**ASK, field: value}
    if field == "best_of":
        del body["beam_width"]
    answer = small.post("/v1/completions", json=body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, field), answer.text


@pytest.mark.parametrize(
    "fields, param",
    [
        ({"beam_width": 4}, "beam_width"),
        ({"num_beam_groups": 2}, "num_beam_groups"),
        ({"diversity_penalty": 1}, "diversity_penalty"),
        ({"n": 3, "best_of": 2}, "best_of"),
        ({"best_of": 2, "stream": True}, "best_of"),
        ({"stream_best_so_far": True, "stream": True}, "stream_best_so_far"),
        ({"use_beam_search": True, "stream_best_so_far": True}, "stream_best_so_far"),
    ],
)
def test_combinations_that_mean_nothing_are_refused_by_name(small, fields, param):
    answer = small.post("/v1/completions", json={"prompt": "a", "max_tokens": 2, **fields})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param), answer.text


@pytest.mark.parametrize(
    "flags, served",
    [
        (["--kv-cache-memory-bytes", "512KiB"], True),
        (["--kv-cache-memory-bytes", "512KiB", "--swap-space", "512KiB", "--preemption-mode", "swap"], True),
        (["--max-num-seqs", "64"], False),
        (["--scheduler", "orca", "--reserve", "oracle", "--kv-cache-memory-bytes", "512KiB"], False),
    ],
)
def test_a_fork_bomb_is_served_or_refused_and_others_move_on(flags, served):
    bomb = {
        "prompt": "Once upon a time",
        "max_tokens": 64,
        "n": 128,
        "best_of": 256,
        "temperature": 1,
        "seed": 1,
        "ignore_eos": True,
    }
    small = {"prompt": "The sun", "max_tokens": 4, "temperature": 0, "ignore_eos": True}
    with (
        serving(small_model(), "--max-model-len", "128", *flags) as server,
        httpx.Client(base_url=server.url, timeout=120) as http,
    ):
        answers = []

        def throw():
            with httpx.Client(base_url=server.url, timeout=120) as client:
                answers.append(client.post("/v1/completions", json=bomb))

        alone = time.monotonic()
        complete(http, **small)
        alone = time.monotonic() - alone
        bombs = [threading.Thread(target=throw) for _ in range(2)]
        for thread in bombs:
            thread.start()
        waits = []
        while any(thread.is_alive() for thread in bombs) or len(waits) < 3:
            begin = time.monotonic()
            complete(http, **small)
            waits.append(time.monotonic() - begin)
        for thread in bombs:
            thread.join()
        for answer in answers:
            if served:
                assert answer.status_code == 200, answer.text
                assert len(answer.json()["choices"]) == 128
                assert answer.json()["usage"]["completion_tokens"] == 128 * 64
            else:
                assert (answer.status_code, answer.json()["error"]["param"]) == (400, "best_of"), answer.text
        # First come, first served: a later request waits only for the bombs before it.
        assert max(waits) < 60, f"{waits} (alone {alone})"
        assert server.wait_until_idle()
        held = http.get("/debug/kv").json()
        assert held["num_free_blocks"] == held["num_blocks"] and held["num_free_swap_blocks"] == held["num_swap_blocks"]


def test_orca_serves_the_same_beams(small):
    asks = [{**ASK, "n": 2, "beam_width": width, "max_tokens": 24, "ignore_eos": True} for width in (2, 6)]
    with (
        serving(small_model(), "--max-model-len", "128", "--scheduler", "orca") as server,
        httpx.Client(base_url=server.url, timeout=120) as http,
    ):
        for ask in asks:
            theirs, ours = http.post("/v1/completions", json=ask), small.post("/v1/completions", json=ask)
            assert theirs.status_code == 200, theirs.text
            assert theirs.json()["choices"] == ours.json()["choices"]
        assert server.wait_until_idle()
        held = http.get("/debug/kv").json()
        assert held["num_free_blocks"] == held["num_blocks"]
