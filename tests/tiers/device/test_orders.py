"""Tests many orders of a device's streams, of which the core tests a few: swaps, copies and moved pages with 100
orders, and servers that preempt by swapping with 10. Also tests kernels with all shapes, of which the core tests a
sample.

PAGODA_DEVICE_SEEDS=1000 tries 1,000 orders, and a tenth of them with servers."""

import concurrent.futures
import os
import pathlib

import device_shards
import httpx
import pytest
from conftest import serving, small_model

ROOT = pathlib.Path(__file__).resolve().parents[3]
SEEDS = int(os.environ.get("PAGODA_DEVICE_SEEDS", "100"))
QWEN3 = ROOT / "tests/fixtures/tiny_models/qwen3"
PROMPTS = [[(7 * i + 5 * at) % 60 + 3 for at in range(5 + 3 * i)] for i in range(4)]
FLAGS = [
    "--tokenizer",
    str(small_model()),
    "--dtype",
    "float32",
    "--max-num-seqs",
    "8",
    "--max-num-batched-tokens",
    "16",
    "--block-size",
    "4",
    "--max-model-len",
    "32",
    "--no-enable-prefix-caching",
    "--preemption-mode",
    "swap",
    "--swap-space",
    "64KiB",
]
MEMORY = {
    "paged": ["--kv-cache-memory-bytes", "9KiB"],
    "virtual": ["--kv-cache-memory-bytes", "12KiB", "--kv-manager", "virtual"],
}


@pytest.fixture(scope="module", autouse=True)
def build():
    device_shards.build("pagoda")


def test_moved_blocks():
    device_shards.run(f"-{device_shards.RANKS_AND_TIERS}:{device_shards.FAMILIES}", SEEDS)


def test_kernels():
    device_shards.run("*", seeds=1, program="device_test")


def answers(server, pool):
    def ask(at):
        body = {
            "prompt": PROMPTS[at],
            "max_tokens": 14,
            "ignore_eos": True,
            "return_token_ids": True,
            "temperature": 0.8,
            "seed": at,
        }
        return httpx.post(server.url + "/v1/completions", json=body, timeout=300).json()["choices"][0]["token_ids"]

    return list(pool.map(ask, range(len(PROMPTS))))


def test_served_answers():
    """The answers equal those of a CPU whose memory fits all requests."""
    with concurrent.futures.ThreadPoolExecutor(len(PROMPTS)) as pool:
        with serving(QWEN3, *FLAGS, "--kv-cache-memory-bytes", "64KiB") as server:
            wanted = answers(server, pool)
        for seed in range(max(1, SEEDS // 10)):
            memory = list(MEMORY)[seed % 2]
            with serving(
                QWEN3,
                *FLAGS,
                *MEMORY[memory],
                "--device",
                "emulated",
                "--emulated-device",
                f"memory=16MiB,granule=4KiB,seed={seed}",
            ) as server:
                assert answers(server, pool) == wanted, (memory, seed)
                assert server.metric("swapped_in_blocks_total") > 0, (memory, seed)
