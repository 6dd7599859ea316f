"""`--kv-manager virtual` takes memory as it is used: a pool of gigabytes starts as small as a paged one, grows with what
is held, and gives back what nobody holds."""
import concurrent.futures
import pathlib
import random
import re
import time

import httpx

from conftest import default_model, serving

POOL = 4 << 30
SLACK = 64 << 20
FREE_RESIDENT = 60 << 20  # pages that nobody has and that keep their memory: 48 MiB, a quarter more at times


def resident(server):
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{server.process.pid}/status").read_text())[1]) << 10


def becomes(condition, timeout_s=60):
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return condition()


def test_memory_is_taken_with_use_and_given_back():
    flags = ["--kv-cache-memory-bytes", str(POOL), "--max-model-len", "4096"]
    with serving(default_model(), *flags) as server:
        paged = resident(server)
    with serving(default_model(), *flags, "--kv-manager", "virtual") as server, httpx.Client(base_url=server.url, timeout=300) as http:
        start = resident(server)
        assert start < paged + SLACK, (start >> 20, paged >> 20)
        kv = http.get("/debug/kv").json()
        per_token = POOL / (kv["num_blocks"] * kv["block_size"])
        draw = random.Random(4)
        prompts = [[draw.randrange(100, 40_000) for _ in range(2000)] for _ in range(6)]

        def ask(prompt, tokens=1):
            answer = http.post("/v1/completions", json={"prompt": prompt, "max_tokens": tokens, "temperature": 0})
            assert answer.status_code == 200, answer.text

        ask(prompts[0][:16])  # what a first request takes beside its K/V
        before = resident(server)
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            list(pool.map(ask, prompts))
        held = 6 * 2000 * per_token  # the prefix cache keeps it
        grown = resident(server) - before
        print(f"start {start >> 20} MiB, paged {paged >> 20}; held {held / 2**20:.0f} MiB, grown by {grown / 2**20:.0f}")
        assert 0.9 * held - FREE_RESIDENT < grown < 2 * held + SLACK
        assert http.post("/reset_prefix_cache").status_code == 200

        def given_back():
            ask(prompts[1][:16])
            return resident(server) < before + FREE_RESIDENT + SLACK

        assert becomes(given_back), resident(server) >> 20
