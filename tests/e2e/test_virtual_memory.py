"""`--kv-manager virtual` takes memory as it is used: a pool of gigabytes starts as small as a paged one, grows with the
tokens in it, and releases memory without tokens."""

import concurrent.futures
import pathlib
import random
import re
import time

import httpx
from conftest import default_model, serving

POOL = 4 << 30
SLACK = 64 << 20


def memory(server, field="VmRSS"):
    """Returns resident bytes; with RssShmem, those of the virtual manager's pool."""
    return int(re.search(field + r":\s+(\d+)", pathlib.Path(f"/proc/{server.process.pid}/status").read_text())[1]) << 10


def settled(server):
    """Waits until idle-time preparation of the pool, which both managers do, has finished."""
    seen = [memory(server)]
    while len(seen) < 4 or max(seen[-4:]) - min(seen[-4:]) > 1 << 20:
        time.sleep(0.5)
        seen.append(memory(server))
    return seen[-1]


def becomes(condition, timeout_s=60):
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return condition()


def test_memory_is_taken_with_use_and_given_back():
    flags = [
        "--kv-cache-memory-bytes",
        str(POOL),
        "--max-model-len",
        "4096",
        "--max-queue-time",
        "0",
        "--kv-cache-dtype",
        "float32",
    ]
    with serving(default_model(), *flags) as server:
        paged = settled(server)
    with (
        serving(default_model(), *flags, "--kv-manager", "virtual") as server,
        httpx.Client(base_url=server.url, timeout=300) as http,
    ):
        start = settled(server)
        assert start < paged + SLACK, (start >> 20, paged >> 20)
        kv = http.get("/debug/kv").json()
        per_token = POOL / (kv["num_blocks"] * kv["block_size"])
        draw = random.Random(4)
        prompts = [[draw.randrange(100, 40_000) for _ in range(1600)] for _ in range(4)]

        def ask(prompt, tokens=1):
            answer = http.post("/v1/completions", json={"prompt": prompt, "max_tokens": tokens, "temperature": 0})
            assert answer.status_code == 200, answer.text

        begun = memory(server, "RssShmem")
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(ask, prompts))
        held = len(prompts) * 1600 * per_token  # kept by the prefix cache
        used = memory(server, "RssShmem")
        assert http.post("/reset_prefix_cache").status_code == 200

        def given_back():
            ask(prompts[1][:16])
            return memory(server, "RssShmem") < used / 2

        given = becomes(given_back)
        print(
            f"start {start >> 20} MiB, paged {paged >> 20}; pool: {begun >> 20} at start, {used >> 20} with"
            f" {held / 2**20:.0f} held, {memory(server, 'RssShmem') >> 20} after that"
        )
        # As many free pages as are in use are prepared in addition.
        assert 0.9 * held < used < begun + 2 * held + SLACK < POOL / 2
        assert given
