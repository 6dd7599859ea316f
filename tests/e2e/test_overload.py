"""Waiting times are bounded under overload: promised times to the first token, deadlines, refusals."""

import concurrent.futures
import json
import re
import time

import httpx
import pytest
from conftest import default_model, serving

BODY = {"prompt": "Once upon a time there was", "max_tokens": 24, "temperature": 0, "ignore_eos": True}


def post(server, body, headers=None, path="/v1/completions"):
    return httpx.post(server.url + path, json={**BODY, **body}, headers=headers, timeout=120)


def events(server, body, headers=None):
    with httpx.stream(
        "POST", server.url + "/v1/completions", json={**BODY, **body, "stream": True}, headers=headers, timeout=120
    ) as response:
        assert response.status_code == 200
        return [line[6:] for line in response.iter_lines() if line.startswith("data: ")]


@pytest.mark.parametrize(
    "how",
    [
        ({"X-Request-Timeout": "1.0"}, {}),
        ({"x-envoy-expected-rq-timeout-ms": "1000"}, {}),
        ({}, {"timeout": 1.0}),
        ({"X-Request-Timeout": "60"}, {"timeout": 1.0}),
    ],
)
def test_a_deadline_ends_an_answer_that_is_being_made(server, valid, how):
    headers, fields = how
    begin = time.monotonic()
    late = post(server, {"max_tokens": 1500, **fields}, headers)
    assert late.status_code == 408 and late.json()["error"]["code"] == "deadline_exceeded"
    assert time.monotonic() - begin < 5
    valid("ErrorResponse", late.json())
    *chunks, last, done = events(server, {"max_tokens": 1500, **fields}, headers)
    assert json.loads(last)["error"]["code"] == "deadline_exceeded" and done == "[DONE]"
    assert any(json.loads(chunk)["choices"][0]["text"] for chunk in chunks), "what was made in time is sent"


def test_a_deadline_that_is_met_changes_nothing(server):
    plain = post(server, {}).json()["choices"][0]
    for headers, fields in (
        ({"X-Request-Timeout": "60.5"}, {}),
        ({"x-envoy-expected-rq-timeout-ms": "0"}, {}),
        ({}, {"timeout": 1e6}),
    ):
        assert post(server, fields, headers).json()["choices"][0] == plain


@pytest.mark.parametrize(
    "headers, fields",
    [
        ({"X-Request-Timeout": "soon"}, {}),
        ({"X-Request-Timeout": "0"}, {}),
        ({"X-Request-Timeout": "nan"}, {}),
        ({"X-Request-Timeout": "1s"}, {}),
        ({"x-envoy-expected-rq-timeout-ms": "-1"}, {}),
        ({}, {"timeout": 0}),
        ({}, {"timeout": "5"}),
    ],
)
def test_a_deadline_that_is_none_is_refused(server, headers, fields):
    refused = post(server, fields, headers)
    assert refused.status_code == 400, refused.text
    assert refused.json()["error"]["param"] in ("X-Request-Timeout", "x-envoy-expected-rq-timeout-ms", "timeout")


def test_who_would_wait_too_long_is_told_at_once_and_for_how_long():
    with (
        serving(default_model(), "--max-num-seqs", "1", "--max-queue-time", "1", "--max-model-len", "2048") as server,
        httpx.Client(base_url=server.url, timeout=300, limits=httpx.Limits(max_connections=None)) as client,
    ):

        def timed(length, headers=None):
            begin = time.monotonic()
            response = client.post("/v1/completions", json={**BODY, "max_tokens": length}, headers=headers)
            return response, time.monotonic() - begin

        # Half a second of work on this machine, or as much as fits into the context, so that 32 requests are a queue of
        # seconds on fast and slow machines.
        timed(100)
        _, hundred = timed(100)
        length = int(min(max(100 * 0.5 / hundred, 20), 1500))
        alone = 0
        for _ in range(3):  # teaches the server the length and duration of answers
            answer, alone = timed(length)
            assert answer.json()["usage"]["completion_tokens"] == length
        with concurrent.futures.ThreadPoolExecutor(32) as pool:
            flood = [pool.submit(timed, length) for _ in range(32)]
            hopeless, _ = timed(length, {"X-Request-Timeout": f"{alone / 5:.3f}"})
            assert hopeless.status_code in (408, 429), hopeless.text
            answers = [one.result() for one in flood]
        served = [took for response, took in answers if response.status_code == 200]
        refused = [(response, took) for response, took in answers if response.status_code != 200]
        print(f"{length} tokens take {alone:.2f} s; {len(served)} served, {len(refused)} refused")
        assert served and refused
        for response, _ in refused:
            assert response.status_code == 429 and response.json()["error"]["code"] == "queue_time", response.text
            assert 1 <= int(response.headers["retry-after"]) <= 2 + 32 * 3 * alone
        refusals = sorted(took for _, took in refused)
        assert refusals[len(refusals) // 2] < max(served), "at once, while those who were let in still wait"
        metrics = httpx.get(server.url + "/metrics").text
        assert re.search(r'pagoda:requests_refused_total{[^}]*reason="queue_time"} [1-9]', metrics)
        for _ in range(3):  # the machine may have slowed down; a client that follows Retry-After is served
            time.sleep(int(refused[-1][0].headers["retry-after"]))
            again, took = timed(length)
            if again.status_code == 200:
                break
            refused.append((again, took))
        assert again.status_code == 200


def test_the_first_token_comes_as_promised_under_a_flood():
    # Regression: all requests were accepted, and waited for up to 40 s.
    with serving(default_model(), "--max-queue-time", "1", "--max-num-seqs", "32", "--max-model-len", "2048") as server:
        for _ in range(4):
            post(server, {})
        first, refused, _done = [], [], 0

        def one(number):
            begin = time.monotonic()
            with httpx.stream(
                "POST", server.url + "/v1/completions", json={**BODY, "seed": number, "stream": True}, timeout=120
            ) as response:
                if response.status_code != 200:
                    response.read()
                    return response.status_code, time.monotonic() - begin
                for line in response.iter_lines():
                    if line.startswith("data: "):
                        return 200, time.monotonic() - begin

        with concurrent.futures.ThreadPoolExecutor(200) as pool:
            for status, took in pool.map(one, range(400)):
                (first if status == 200 else refused).append(took)
        print(f"{len(first)} served, slowest first token {max(first):.2f} s; {len(refused)} refused")
        assert refused and len(first) >= 32
        # The client's 200 threads and other processes share the machine. How closely the promise is kept is tested in
        # the simulator.
        assert sorted(first)[int(len(first) * 0.95)] < 15
