"""Tiers behind a device's KV cache: --kv-offloading-size, --kv-disk, --kv-transfer-config and --data-parallel-size with
`--device emulated`. Rows from CPU memory, a disk or another server are bit-identical to computed rows, also with an
engine per device. Sleep, replay and aborts work as without tiers.

The device runs in software and is slow, so models and answers are small.
"""

import concurrent.futures
import contextlib
import os
import pathlib
import subprocess
import time

import httpx
import pytest
from conftest import binary, serving, small_model
from kv_disk import tokens_on_disk, wait_for
from kv_peers import config, free_port, wait_for_peers

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "tests/fixtures/tiny_models/qwen3"
DEVICE = os.environ.get("PAGODA_TEST_DEVICE", "emulated")  # or a GPU (bench/gpu/run)
FLAGS = [
    *("--tokenizer", str(small_model()), "--served-model-name", "model", "--dtype", "float32", "--device", DEVICE),
    *("--max-num-seqs", "8", "--max-num-batched-tokens", "64", "--block-size", "4"),
]
EMULATED = ["--emulated-device", "memory=16MiB,seed=3"]
SMALL = [*EMULATED, "--kv-cache-memory-bytes", "20KiB", "--max-model-len", "auto"]
VIRTUAL = [
    *("--emulated-device", "memory=16MiB,granule=4KiB,seed=7", "--kv-manager", "virtual"),
    *("--kv-cache-memory-bytes", "32KiB", "--max-model-len", "auto"),
]
PROMPTS = [[(7 * i + 5 * at) % 60 + 3 for at in range(26 + i)] for i in range(4)]


def ask(server, prompt, rank=None, **how):
    """Returns tokens, log-probabilities, and the number of prompt tokens that were not computed."""
    body = {"prompt": prompt, "max_tokens": 6, "ignore_eos": True, "return_token_ids": True, "logprobs": 1, "seed": 1}
    headers = {} if rank is None else {"X-data-parallel-rank": str(rank)}
    answer = httpx.post(server.url + "/v1/completions", json={**body, **how}, headers=headers, timeout=300)
    assert answer.status_code == 200, answer.text
    answer = answer.json()
    choice = answer["choices"][0]
    cached = answer["usage"]["prompt_tokens_details"]["cached_tokens"]
    return (choice["token_ids"], choice["logprobs"]["token_logprobs"]), cached


@pytest.fixture(scope="module")
def wanted():
    """Answers without any cache."""
    with serving(MODEL, *FLAGS, *EMULATED, "--kv-cache-memory-bytes", "64KiB", "--no-enable-prefix-caching") as server:
        return [ask(server, prompt)[0] for prompt in PROMPTS]


def ask_until_brought(server, wanted, **how):
    """Repeats sessions until one finds rows in a tier; rows that would arrive too late are recomputed instead."""
    deadline = time.monotonic() + 120
    while True:
        assert [ask(server, prompt, **how)[0] for prompt in PROMPTS] == wanted
        if server.metric("external_prefix_cache_hits_total") > 0:
            return
        assert time.monotonic() < deadline, server.metrics()


@pytest.mark.parametrize("pool", [SMALL, VIRTUAL], ids=["paged", "virtual"])
def test_what_was_evicted_is_found_again(tmp_path, wanted, pool):
    log = tmp_path / "run.log"
    with serving(MODEL, *FLAGS, *pool, "--kv-offloading-size", "4MiB", "--record", log) as server:
        ask_until_brought(server, wanted)
        with concurrent.futures.ThreadPoolExecutor(8) as threads:  # requests wait, share rows and are preempted
            together = list(threads.map(lambda i: ask(server, PROMPTS[i % 4])[0], range(12)))
        assert together == [wanted[i % 4] for i in range(12)]
        # A client that disconnects while its rows are being loaded.
        for prompt in PROMPTS:
            with contextlib.suppress(httpx.TimeoutException):
                httpx.post(server.url + "/v1/completions", json={"prompt": prompt, "max_tokens": 30}, timeout=0.02)
        assert [ask(server, prompt)[0] for prompt in PROMPTS] == wanted
        assert httpx.post(server.url + "/reset_prefix_cache", timeout=60).status_code == 200
        assert ask(server, PROMPTS[0]) == (wanted[0], 0)
    replayed = subprocess.run([binary(), "simulate", "--replay", log], capture_output=True, text=True, timeout=120)
    assert replayed.returncode == 0, replayed.stderr
    assert "every decision the same" in replayed.stdout


def test_graphs_that_are_compared_and_steps_that_are_planned_ahead(wanted):
    flags = ("--device-graphs", "check", "--async-scheduling", "--kv-offloading-size", "4MiB")
    with serving(MODEL, *FLAGS, *SMALL, *flags) as server:
        ask_until_brought(server, wanted)
        with concurrent.futures.ThreadPoolExecutor(8) as threads:
            assert list(threads.map(lambda p: ask(server, p)[0], PROMPTS)) == wanted


def test_a_disk_is_found_by_the_next_server_and_after_sleep(tmp_path, wanted):
    folder = tmp_path / "kv"
    flags = (*FLAGS, *EMULATED, "--kv-cache-memory-bytes", "64KiB", "--kv-disk", str(folder))
    with serving(MODEL, *flags) as first:
        assert [ask(first, prompt)[0] for prompt in PROMPTS] == wanted
        wait_for(folder, 24 * 4)
    with serving(MODEL, *flags) as second:
        ask_until_brought(second, wanted)
        before = second.metric("external_prefix_cache_hits_total")
        deadline = time.monotonic() + 120
        while second.metric("external_prefix_cache_hits_total") == before:  # from newly allocated memory
            assert time.monotonic() < deadline
            for action in ("sleep?level=1", "wake_up"):
                done = httpx.post(f"{second.url}/{action}", timeout=60)
                assert done.status_code == 200, done.text
            assert [ask(second, prompt)[0] for prompt in PROMPTS] == wanted
    # The CPU's results differ in their last bits.
    on_cpu = [flag if flag != DEVICE else "cpu" for flag in FLAGS]
    with serving(MODEL, *on_cpu, "--kv-cache-memory-bytes", "64KiB", "--kv-disk", str(folder)) as other:
        assert [ask(other, prompt)[1] for prompt in PROMPTS] == [0] * 4
    assert tokens_on_disk(folder) > 0


def test_one_server_fetches_what_another_computed(wanted):
    port = free_port()
    plain = (*FLAGS, *EMULATED, "--kv-cache-memory-bytes", "64KiB")
    with (
        serving(MODEL, *plain, *config("kv_producer", port)) as producer,
        serving(MODEL, *plain, *config("kv_consumer", peers=[port])) as consumer,
    ):
        wait_for_peers(consumer)
        number, deadline = 0, time.monotonic() + 120
        while consumer.metric("external_prefix_cache_hits_total") == 0:
            assert time.monotonic() < deadline, consumer.metrics()
            number += 1
            salt = {"cache_salt": f"salt {number}"}  # texts that the consumer has not computed itself
            for prompt, want in zip(PROMPTS, wanted, strict=True):
                assert ask(producer, prompt, **salt)[0] == want
                assert ask(consumer, prompt, **salt)[0] == want
        assert consumer.metric("kv_peer_hits_total") > 0


def test_engines_on_devices_of_their_own(wanted):
    two = ("--data-parallel-size", "2", "--threads", "2", "--kv-offloading-size", "4MiB")
    with serving(MODEL, *FLAGS, *EMULATED, "--kv-cache-memory-bytes", "128KiB", *two) as server:
        for rank in (0, 1):
            assert [ask(server, prompt, rank)[0] for prompt in PROMPTS] == wanted
        with concurrent.futures.ThreadPoolExecutor(8) as threads:
            together = list(threads.map(lambda i: ask(server, PROMPTS[i % 4])[0], range(12)))
        assert together == [wanted[i % 4] for i in range(12)]
        assert any("2 engines of an emulated device" in line for line in server.log)


@pytest.mark.skipif(DEVICE != "emulated", reason="no GPU is lost for a test")
def test_a_lost_device_ends_its_engine_alone(wanted):
    lost = ("--emulated-device", "memory=16MiB,lost-launch=900", "--kv-cache-memory-bytes", "128KiB")
    with serving(MODEL, *FLAGS, *lost, "--data-parallel-size", "2", "--threads", "2") as server:
        assert ask(server, PROMPTS[0], rank=0)[0] == wanted[0]
        for _ in range(200):
            body = {"prompt": PROMPTS[1], "max_tokens": 6}
            answer = httpx.post(
                server.url + "/v1/completions", json=body, headers={"X-data-parallel-rank": "1"}, timeout=60
            )
            if answer.status_code != 200:
                break
        assert answer.status_code >= 500
        assert httpx.get(server.url + "/health", timeout=60).status_code == 503
        assert ask(server, PROMPTS[2])[0] == wanted[2], "by the other"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--kv-offloading-size", "1000000"], "--kv-offloading-size needs"),
        (["--kv-offloading-size", "1", "--no-enable-prefix-caching"], "needs --enable-prefix-caching"),
        (["--device", "cuda", "--data-parallel-size", "2", "--threads", "2"], "--device cuda"),
    ],
)
def test_what_there_is_not_is_refused_in_one_line(flags, said):
    if DEVICE == "cuda" and "cuda" in flags:
        pytest.skip("there may be two")
    refused = subprocess.run(
        [binary(), "serve", MODEL, *FLAGS, *EMULATED, "--port", "0", *flags], capture_output=True, text=True, timeout=60
    )
    assert refused.returncode == 2, refused.stderr
    assert said in refused.stderr.splitlines()[-1]
