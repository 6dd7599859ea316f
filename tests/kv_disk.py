"""Servers with --kv-disk and the small model: helpers to query, inspect and kill them."""

import random
import subprocess
import time

import httpx
from conftest import binary, serving, small_model

PROMPT = "The quick brown fox jumps over the lazy dog. " * 10
FLAGS = ("--kv-cache-memory-bytes", "64M", "--served-model-name", "model")


def serve(folder, *flags, model=None, **more):
    return serving(model or small_model(), *FLAGS, "--kv-disk", str(folder), *flags, **more)


def answer(server, prompt=PROMPT, headers=None, **more):
    body = {"model": "model", "prompt": prompt, "max_tokens": 6, "temperature": 0, "logprobs": 2, **more}
    response = httpx.post(server.url + "/v1/completions", json=body, headers=headers, timeout=60)
    assert response.status_code == 200, response.text
    answer = response.json()
    choice = answer["choices"][0]
    cached = answer["usage"]["prompt_tokens_details"]["cached_tokens"]
    return (choice["text"], choice["logprobs"]["token_logprobs"]), cached


def kv(action, folder, code=0):
    done = subprocess.run([binary(), "kv", action, str(folder)], capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def tokens_on_disk(folder):
    return sum(int(line.split()[2]) for line in kv("list", folder).splitlines() if " tokens " in line)


def wait_for(folder, tokens):
    """Waits until the blocks are on disk, since they are written after the answer."""
    deadline = time.monotonic() + 30
    while tokens_on_disk(folder) < tokens:
        assert time.monotonic() < deadline, kv("list", folder)
        time.sleep(0.05)


def kill_and_compare(folder, kills):
    """Checks that answers after a kill are bit-identical. Returns the number of answers that used rows on disk."""
    dice, expected, hits = random.Random(60), {}, 0
    prompts = [f"{number} {PROMPT}" for number in range(8)]
    for kill in range(kills):
        with serve(folder, "--kv-disk-bytes", "64M") as server:
            for number in dice.sample(range(len(prompts)), 2):
                got, cached = answer(server, prompts[number])
                assert got == expected.setdefault(number, got), f"kill {kill}"
                hits += cached > 0
            time.sleep(dice.random() * 0.05)
            server.process.kill()
            server.process.wait()
    assert sum(path.stat().st_size for path in folder.glob("*.kv")) <= 64 << 20
    return hits
