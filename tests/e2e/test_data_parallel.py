"""--data-parallel-size: two engines in one server give bit-identical results to one, sessions stay where they are
cached, and each engine is visible in metrics."""

import concurrent.futures
import contextlib
import os
import pathlib
import re
import subprocess

import httpx
import openai
import pytest
from conftest import binary, serving, small_model
from kv_disk import tokens_on_disk, wait_for

TWO = ("--data-parallel-size", "2", "--threads", "2")


def tokens_of(seed, count):
    """Returns a prompt whose beginning is unique to the seed."""
    return [5 + (seed * 37 + i * (seed % 7 + 1)) % 200 for i in range(count)]


def complete(http, prompt, headers=(), **more):
    answer = http.post(
        "/v1/completions",
        headers=dict(headers),
        json={"prompt": prompt, "max_tokens": 16, "ignore_eos": True, "logprobs": 2, "return_token_ids": True, **more},
    )
    assert answer.status_code == 200, answer.text
    return answer.json()


def by_engine(server, name):
    """Returns the values of a metric per engine, summed over its other labels."""
    out = {}
    for sample, value in server.metrics().items():
        if re.match(rf"(\w+:)?{name}_total\{{", sample):
            engine = re.search(r'engine="(\d+)"', sample)[1]
            out[engine] = out.get(engine, 0) + value
    return out


@pytest.fixture(scope="module")
def one():
    with serving(small_model(), "--threads", "2", "--served-model-name", "small") as server:
        yield server


@pytest.fixture(scope="module")
def two():
    with serving(small_model(), *TWO, "--served-model-name", "small") as server:
        yield server


def test_the_bits_of_one_engine(one, two):
    def bits(server):
        with httpx.Client(base_url=server.url, timeout=60) as http, concurrent.futures.ThreadPoolExecutor(8) as pool:

            def ask(i):
                kind = [{"temperature": 0}, {"temperature": 1, "seed": i}, {"n": 3, "seed": i, "min_p": 0.05}][i % 3]
                return complete(http, tokens_of(i, 10 + 9 * (i % 12)), **kind)["choices"]

            return [
                [(c["token_ids"], c["logprobs"]["token_logprobs"]) for c in choices]
                for choices in pool.map(ask, range(48))
            ]

    expected = bits(one)
    assert bits(two) == expected
    assert all(count > 5 for count in by_engine(two, "request_success").values()), "both had something to do"


def test_requests_without_a_seed_draw_what_they_would_of_one_engine():
    drawn = []
    for flags in (("--threads", "2"), TWO):
        with serving(small_model(), "--seed", "5", *flags) as server, httpx.Client(base_url=server.url) as http:
            drawn.append([complete(http, tokens_of(i, 20), temperature=1)["choices"][0]["token_ids"] for i in range(6)])
    assert drawn[0] == drawn[1]


def test_sessions_return_to_their_engine(one, two):
    """Twelve concurrent conversations of five turns each: two engines have the same cache hits as one."""

    names = ("prefix_cache_hits_total", "prefix_cache_queries_total")

    def share(server):
        before = [server.metric(name) for name in names]

        def talk(session):
            with httpx.Client(base_url=server.url, timeout=60) as http:
                prompt = tokens_of(100 + session, 150)
                for turn in range(5):
                    answer = complete(http, prompt, temperature=0)["choices"][0]["token_ids"]
                    prompt = prompt + answer + tokens_of(200 + 20 * session + turn, 25)

        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            list(pool.map(talk, range(12)))
        hits, queries = (server.metric(name) - was for name, was in zip(names, before, strict=True))
        return hits / queries

    before = by_engine(two, "prompt_tokens")
    alone, shared = share(one), share(two)
    assert alone > 0.3, "there is something to find"
    assert shared >= 0.95 * alone, (shared, alone)
    assert all(count > before[engine] for engine, count in by_engine(two, "prompt_tokens").items()), "both take part"


def test_a_client_names_its_engine(two):
    client = openai.OpenAI(base_url=two.url + "/v1", api_key="none", max_retries=0)
    ask = {"model": "small", "prompt": "Say hello.", "max_tokens": 4}
    for rank in (1, 0):
        before = by_engine(two, "request_success")
        for _ in range(3):
            client.completions.create(**ask, extra_headers={"X-data-parallel-rank": str(rank)})
        after = by_engine(two, "request_success")
        assert after[str(rank)] == before[str(rank)] + 3
        assert after[str(1 - rank)] == before[str(1 - rank)]
    for wrong in ("2", "-1"):
        with pytest.raises(openai.BadRequestError) as error:
            client.completions.create(**ask, extra_headers={"X-data-parallel-rank": wrong})
        assert f"data_parallel_rank {wrong} is out of range [0, 2)." in str(error.value)
    # As in vLLM: a value that is not a number is ignored.
    client.completions.create(**ask, extra_headers={"X-data-parallel-rank": "one"})


def test_one_engine_has_the_rank_0(one):
    with httpx.Client(base_url=one.url) as http:
        complete(http, "Once", headers={"X-data-parallel-rank": "0"})
        refused = http.post("/v1/completions", json={"prompt": "a"}, headers={"X-data-parallel-rank": "1"})
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "data_parallel_rank"


def test_what_concerns_all_engines(two):
    with httpx.Client(base_url=two.url, timeout=60) as http:
        rules = [5 + i % 200 for i in range(37)]
        made = http.post("/admin/prefixes", json={"name": "rules", "token_ids": rules})
        assert made.status_code in (200, 201), made.text
        assert [(p["name"], p["num_blocks"]) for p in http.get("/admin/prefixes").json()["data"]] == [("rules", 6)]
        for rank in "01":
            answer = complete(http, [*rules, 9], headers={"X-data-parallel-rank": rank})
            assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] >= 32
        assert http.delete("/admin/prefixes/rules").status_code in (200, 204)
        assert http.get("/admin/prefixes").json()["data"] == []

        before = complete(http, "Once upon", temperature=0)["choices"][0]["token_ids"]
        assert http.post("/sleep?level=1").status_code == 200
        assert http.get("/is_sleeping").json() == {"is_sleeping": True}
        assert http.post("/wake_up").status_code == 200
        for rank in "01":
            after = complete(http, "Once upon", temperature=0, headers={"X-data-parallel-rank": rank})
            assert after["choices"][0]["token_ids"] == before
        assert http.post("/reset_prefix_cache").status_code == 200
        assert complete(http, "Once upon")["usage"]["prompt_tokens_details"]["cached_tokens"] == 0

        assert http.get("/health").status_code == 200
        assert http.get("/server_info").json()["dp_size"] == 2
        engines = http.get("/debug/kv").json()["engines"]
        assert [engine["requests"] for engine in engines] == [[], []]
        for rank in (0, 1):
            with http.stream("GET", f"/debug/live?engine={rank}") as live:
                assert live.status_code == 200
                assert any(line.startswith("data:") for line in live.iter_lines())
        for wrong in ("2", "x"):
            refused = http.get(f"/debug/live?engine={wrong}")
            assert refused.status_code == 400
            assert "'engine' must be a number from 0 to 1." in refused.text


def test_weights_are_held_once():
    """Applies to weights in memory, without the weight cache."""
    loaded = {}
    for flags in (("--threads", "2"), TWO):
        with serving(small_model(), "--no-weight-cache", "--kv-cache-memory-bytes", "2MiB", *flags) as server:
            memory = httpx.get(server.url + "/debug/memory").json()["accounts"]
            loaded[flags] = {row["name"]: row["used"] for row in memory}
    one, two = loaded.values()
    assert one["weights"] == two["weights"]
    assert 0 <= one["KV cache"] - two["KV cache"] < one["KV cache"] // 10, "divided"


def cached_by(http, prompt, rank):
    """Returns the exact answer of this engine, and the number of cached prompt tokens."""
    answer = complete(http, prompt, temperature=0, headers={"X-data-parallel-rank": str(rank)})
    choice = answer["choices"][0]
    tokens = choice["token_ids"], choice["logprobs"]["token_logprobs"]
    return tokens, answer["usage"]["prompt_tokens_details"]["cached_tokens"]


def after_restarts(flags, asked):
    """Returns the answers of a new server to each (prompt, rank), with the number of cached tokens. A row that arrives
    too late is recomputed instead, so several servers may be needed."""
    for _ in range(10):
        with serving(small_model(), *flags) as server, httpx.Client(base_url=server.url, timeout=60) as http:
            answers = [cached_by(http, prompt, rank) for prompt, rank in asked]
        if all(cached > 0 for _, cached in answers):
            break
    return answers


def test_engines_share_a_disk(tmp_path):
    folder = tmp_path / "kv"
    flags = ("--kv-disk", str(folder), "--kv-disk-bytes", "64M", "--kv-cache-memory-bytes", "64M")
    prompts = [tokens_of(300 + i, 100) for i in range(2)]
    with serving(small_model(), *TWO, *flags) as server, httpx.Client(base_url=server.url, timeout=60) as http:
        expected = []
        for rank, prompt in enumerate(prompts):
            tokens, cached = cached_by(http, prompt, rank)
            assert cached == 0
            expected.append(tokens)
        wait_for(folder, 2 * 96)
        # An engine is notified of rows that another one wrote, possibly a moment after the file exists.
        for attempt in range(20):
            shared = tokens_of(400 + attempt, 100)
            tokens, _ = cached_by(http, shared, 0)
            wait_for(folder, (3 + attempt) * 96)
            same, cached = cached_by(http, shared, 1)
            assert same == tokens
            if cached > 0:
                break
        assert cached == 96
    other = [(prompt, 1 - rank) for rank, prompt in enumerate(prompts)]
    assert after_restarts([*TWO, *flags], other) == [(tokens, 96) for tokens in expected], (
        "whichever engine computed it"
    )
    with serving(small_model(), *TWO, *flags) as server, httpx.Client(base_url=server.url, timeout=60) as http:
        reset = http.post("/reset_prefix_cache")
        assert reset.status_code == 200
        assert tokens_on_disk(folder) == 0
        # Each engine has prompts of its own, since it may find rows that the other engine has computed since.
        for rank, prompt in enumerate(prompts):
            assert cached_by(http, prompt, rank) == (expected[rank], 0)
        wait_for(folder, 2 * 96)
    assert after_restarts(flags, [(prompts[0], 0)]) == [(expected[0], 96)], "one engine finds what two have left"


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_each_engine_keeps_to_the_cores_that_it_is_given():
    first, second = sorted(os.sched_getaffinity(0))[:2]
    with serving(small_model(), *TWO, "--cpu-list", f"{second}|{first}") as server:
        allowed = []
        for status in pathlib.Path(f"/proc/{server.process.pid}/task").glob("*/status"):
            with contextlib.suppress(OSError):  # it may have ended
                allowed.append(re.search(r"^Cpus_allowed_list:\t(.*)$", status.read_text(), re.MULTILINE)[1])
        assert allowed.count(str(first)) >= 1 and allowed.count(str(second)) >= 1
        assert len(set(allowed)) > 2, "the server's own threads may run anywhere"
        log = "".join(server.log)
        assert f"engine 0: cores {second}" in log and f"engine 1: cores {first}" in log
    refused = subprocess.run(
        [binary(), "serve", str(small_model()), "--port", "0", *TWO, "--cpu-list", f"{first}|{second}|{first}"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert refused.returncode == 2 and "3 lists of cores, but 2 engines run here" in refused.stderr


def test_each_engine_has_a_log_of_its_own(tmp_path):
    log = tmp_path / "run.log"
    with serving(small_model(), *TWO, "--record", str(log)) as server, httpx.Client(base_url=server.url) as http:
        for rank in "0011":
            complete(http, tokens_of(int(rank), 30), headers={"X-data-parallel-rank": rank})
    for rank in (0, 1):
        done = subprocess.run(
            [binary(), "simulate", "--replay", f"{log}.{rank}"], capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--tensor-parallel-size", "2"), "--tensor-parallel-size works with one engine"),
        (
            ("--kv-events-config", '{"enable_kv_cache_events":true,"replay_endpoint":"tcp://*:5558"}'),
            "take 2 ports each, from theirs on: 5557 and 5558 are too close",
        ),
        (("--threads", "1"), "--data-parallel-size 2 needs a thread for each engine, but there is 1: see --threads"),
    ],
)
def test_what_does_not_go_together_is_refused(flags, message):
    done = subprocess.run(
        [binary(), "serve", str(small_model()), "--port", "0", *TWO, *flags], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) <= 2, done.stderr
