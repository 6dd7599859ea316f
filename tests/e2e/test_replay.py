"""`serve --record`, real load from outside, then `simulate --replay`: the same decisions, step by step, in every mode.

The load has everything that affects decisions: concurrent plain, parallel, best_of and beam requests, shared prefixes
that are added and removed, clients that disconnect, and a cache that is too small.
"""

import concurrent.futures
import json
import re
import socket
import subprocess
import time

import httpx
import pytest
from conftest import Server, binary, small_model

# Blocks of 16 tokens.
SMALL = ["--max-num-seqs", "16", "--kv-cache-memory-bytes", "300KiB"]
ORCA = ["--scheduler", "orca", "--kv-manager", "reserved"]
SWAP = ["--swap-space", "1MiB", "--preemption-mode", "swap"]
MODES = {
    "defaults": [],
    "recompute": ["--preemption-mode", "recompute"],
    "swap": SWAP,
    "whole prompts without a cache": ["--no-enable-chunked-prefill", "--no-enable-prefix-caching"],
    "priority": ["--scheduling-policy", "priority"],
    "fair": ["--scheduling-policy", "fair"],
    "least often used first": ["--eviction-policy", "lfu"],
    "virtual": ["--kv-manager", "virtual"],
    "virtual, swap": ["--kv-manager", "virtual", *SWAP],
    "virtual, pages made as needed": ["--kv-manager", "virtual", "--no-kv-precreate-pages", "--max-model-len", "256"],
    "virtual, large pages": ["--kv-manager", "virtual", "--kv-page-size", "16KiB", "--kv-slots", "20"],
    "reserved oracle": [*ORCA, "--reserve", "oracle"],
    "reserved pow2": [*ORCA, "--reserve", "pow2"],
    "reserved max": [*ORCA, "--reserve", "max"],
    "fastertransformer": ["--scheduler", "fastertransformer"],
}
RULES = [5 + i % 200 for i in range(37)]


def bench(server, workload, *flags):
    done = subprocess.run(
        [
            binary(),
            "bench",
            "serve",
            "--base-url",
            server.url,
            "--disable-tqdm",
            "--workload",
            f"uniform:input=5-40,output=4-40,{workload}",
            *flags,
        ],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Failed requests:                         0" in done.stdout


def hang_up(server, tokens_to_read):
    """Reads part of a stream and disconnects."""
    body = json.dumps(
        {"prompt": "Once upon a time", "max_tokens": 100, "ignore_eos": True, "stream": True, "n": 2}
    ).encode()
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(
            b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
            % len(body)
            + body
        )
        seen = b""
        while seen.count(b"data:") < tokens_to_read:
            piece = connection.recv(4096)
            if not piece:
                break
            seen += piece


def best_of(server):
    with httpx.Client(base_url=server.url, timeout=60) as http:
        for i in range(5):
            answer = http.post(
                "/v1/completions", json={"prompt": f"Once {i}", "max_tokens": 30, "best_of": 3, "n": 2, "seed": i}
            )
            assert answer.status_code == 200, answer.text


def prefixes(server):
    """Adds, uses and removes a shared prefix while other requests run."""
    with httpx.Client(base_url=server.url, timeout=60) as http:
        for _ in range(3):
            added = http.post("/admin/prefixes", json={"name": "rules", "token_ids": RULES})
            assert added.status_code in (200, 201), added.text
            for last in (1, 2):
                answer = http.post("/v1/completions", json={"prompt": [*RULES, last], "max_tokens": 8})
                assert answer.status_code == 200, answer.text
            assert http.delete("/admin/prefixes/rules").status_code == 200


@pytest.mark.parametrize("mode", MODES)
def test_a_recorded_run_is_decided_again(mode, tmp_path):
    flags, log = MODES[mode], tmp_path / "run.log"
    paged = "--scheduler" not in flags
    length = [] if "--max-model-len" in flags else ["--max-model-len", "128"]
    server = Server(small_model(), *SMALL, *length, *flags, "--record", log)
    try:
        loads = [
            lambda: bench(server, "requests=30,rate=300,seed=1"),
            lambda: bench(server, "requests=10,rate=200,seed=2,n=3"),
            lambda: bench(server, "requests=10,rate=200,seed=3,prefix=33"),
            lambda: best_of(server),
        ]
        if paged:
            loads += [lambda: bench(server, "requests=8,rate=100,seed=4,beam=3"), lambda: prefixes(server)]
        with concurrent.futures.ThreadPoolExecutor() as pool:
            running = [pool.submit(load) for load in loads]
            running += [pool.submit(hang_up, server, count) for count in (1, 3, 9)]
            for load in running:
                load.result()
        assert server.wait_until_idle()
        preemptions = server.metric("num_preemptions_total")
    finally:
        assert server.stop() == 0
    done = subprocess.run([binary(), "simulate", "--replay", log], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    steps, requests = map(
        int, re.search(r"(\d+) steps and (\d+) requests replayed, every decision the same", done.stdout).groups()
    )
    assert steps > 50 and requests >= 53
    if mode in ("recompute", "swap", "whole prompts without a cache", "priority"):
        assert preemptions > 0, "the cache is to be too small"


def test_a_killed_server_leaves_what_it_wrote(tmp_path):
    log = tmp_path / "run.log"
    server = Server(small_model(), *SMALL, "--max-model-len", "128", "--record", log)
    bench(server, "requests=20,rate=500,seed=1")
    time.sleep(0.2)
    server.process.kill()
    server.process.wait()
    done = subprocess.run([binary(), "simulate", "--replay", log], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and "without its end" in done.stdout + done.stderr, done.stdout + done.stderr


def test_a_log_of_other_decisions_exits_2(tmp_path):
    """A log whose header claims another engine than the one that ran; the error names the step."""
    log = tmp_path / "run.log"
    log.write_bytes(b"PAGODARL\x01 no log")
    done = subprocess.run([binary(), "simulate", "--replay", log], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "run.log" in done.stderr
