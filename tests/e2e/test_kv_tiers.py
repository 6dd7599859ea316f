"""--kv-offloading-size: rows of the prefix cache that were evicted come back from CPU memory, with the same tokens."""

import concurrent.futures
import subprocess

import httpx
import pytest
from conftest import binary, serving, small_model

SMALL = ["--kv-cache-memory-bytes", "300KiB", "--max-model-len", "auto", "--block-size", "16"]
OFFLOADED = ["--kv-offloading-size", "16MiB"]


def complete(http, prompt, **body):
    answer = http.post(
        "/v1/completions",
        json={
            "prompt": prompt,
            "temperature": 0,
            "max_tokens": 8,
            "ignore_eos": True,
            "return_token_ids": True,
            "logprobs": 1,
            **body,
        },
    )
    assert answer.status_code == 200, answer.text
    return answer.json()


def cached(answer):
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"]


def answered(answer):
    choice = answer["choices"][0]
    return choice["token_ids"], choice["logprobs"]["token_logprobs"]


def sessions(http):
    """Sends three prompts, two of which fill the KV cache."""
    pool = http.get("/debug/kv").json()
    length = pool["num_blocks"] * 16 * 6 // 10
    return [[5 + (i * (7 + 2 * k) + k) % 200 for i in range(length)] for k in range(3)]


def answers_without_cache(prompts):
    with serving(small_model(), "--no-enable-prefix-caching") as server:
        with httpx.Client(base_url=server.url, timeout=60) as http:
            return [answered(complete(http, prompt)) for prompt in prompts]


@pytest.mark.parametrize("manager", ["paged", "virtual"])
def test_what_was_evicted_is_found_again(tmp_path, manager):
    log = tmp_path / "run.log"
    with serving(small_model(), *SMALL, *OFFLOADED, "--kv-manager", manager, "--record", log) as server:
        with httpx.Client(base_url=server.url, timeout=60) as http:
            prompts = sessions(http)
            wanted = answers_without_cache(prompts)
            whole = (len(prompts[0]) - 1) // 16 * 16
            first = [complete(http, prompt) for prompt in prompts]
            assert [answered(answer) for answer in first] == wanted
            assert [cached(answer) for answer in first] == [0, 0, 0]
            found = 0
            for _ in range(2):
                again = [complete(http, prompt) for prompt in prompts]
                assert [answered(answer) for answer in again] == wanted
                # Rows that would take longer to load than to compute are computed, as may happen on a busy machine.
                assert all(0 <= cached(answer) <= whole and cached(answer) % 16 == 0 for answer in again)
                found += sum(map(cached, again))
            hits, queries = (server.metric(f"external_prefix_cache_{name}_total") for name in ("hits", "queries"))
            assert 0 < hits <= queries
            assert server.metric("prefix_cache_hits_total") + hits == found
            # Many requests at once: they wait for rows, share them and preempt each other.
            with concurrent.futures.ThreadPoolExecutor(6) as pool:
                together = list(pool.map(lambda i: complete(http, prompts[i % 3]), range(12)))
            assert [answered(answer) for answer in together] == [wanted[i % 3] for i in range(12)]
            assert http.post("/reset_prefix_cache").status_code == 200
            assert cached(complete(http, prompts[0])) == 0, "erased there, too"
    replayed = subprocess.run(
        [binary(), "simulate", "--replay", log], capture_output=True, text=True, timeout=120, check=False
    )
    assert replayed.returncode == 0, replayed.stderr
    assert "every decision the same" in replayed.stdout


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--no-enable-prefix-caching"], "needs --enable-prefix-caching"),
        (["--tensor-parallel-size", "2"], "needs --tensor-parallel-size 1"),
        (["--scheduler", "orca"], "needs --scheduler vllm"),
        (["--kv-offloading-size", "1000000"], "--kv-offloading-size needs"),
    ],
)
def test_what_it_cannot_do_is_refused_in_one_line(flags, said):
    refused = subprocess.run(
        [binary(), "serve", "--model", small_model(), *OFFLOADED, *flags],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert refused.returncode == 2
    assert said in refused.stderr.splitlines()[-1]
