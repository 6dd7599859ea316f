"""Keys: a file with roles and limits, reloaded while the server runs; usage by key."""

import concurrent.futures
import os
import pathlib
import random
import signal
import subprocess
import time

import httpx
import openai
import pytest
from conftest import binary, serving, small_model

KEYS = """keys:
- {name: alice, key: alices-key, weight: 3}
- {name: bob, key: bobs-key}
- {name: ops, key: opss-key, role: admin}
- {name: prom, key: proms-key, role: metrics}
"""


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


def status(server, path, key):
    return httpx.get(server.url + path, headers=bearer(key)).status_code


def within(seconds, condition):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return condition()


def usage(server, key="opss-key"):
    return httpx.get(server.url + "/admin/usage", headers=bearer(key)).json()


@pytest.fixture
def key_file(tmp_path):
    path = tmp_path / "keys.yaml"
    path.write_text(KEYS)
    return path


@pytest.fixture
def keyed(key_file):
    with serving(small_model(), "--api-key-file", str(key_file)) as server:
        server.key_file = key_file
        yield server


def test_roles(keyed):
    assert status(keyed, "/v1/models", "alices-key") == 200
    assert status(keyed, "/v1/models", "wrong") == 401
    for path in ("/admin/prefixes", "/admin/usage", "/debug/kv", "/metrics"):
        assert status(keyed, path, "alices-key") == 403, path
        assert status(keyed, path, "opss-key") == 200, path
    assert status(keyed, "/metrics", "proms-key") == 200
    assert status(keyed, "/v1/models", "proms-key") == 403
    pinned = httpx.post(keyed.url + "/admin/prefixes", json={"name": "p", "text": "x"}, headers=bearer("bobs-key"))
    assert pinned.status_code == 403


def test_several_keys_of_the_command_line_are_users():
    with serving(small_model(), "--api-key", "one", "--api-key", "two") as server:
        assert status(server, "/v1/models", "one") == status(server, "/v1/models", "two") == 200
        assert status(server, "/admin/prefixes", "two") == 403


def test_sighup_reads_the_file_again_and_cuts_no_stream(keyed):
    with httpx.stream(
        "POST",
        keyed.url + "/v1/completions",
        headers=bearer("alices-key"),
        timeout=60,
        json={"prompt": "x", "max_tokens": 400, "ignore_eos": True, "stream": True},
    ) as answer:
        lines = answer.iter_lines()
        next(lines)
        keyed.key_file.write_text(KEYS.replace("bobs-key", "bobs-other-key"))
        keyed.process.send_signal(signal.SIGHUP)
        assert within(5, lambda: status(keyed, "/v1/models", "bobs-other-key") == 200)
        assert status(keyed, "/v1/models", "bobs-key") == 401
        assert "data: [DONE]" in list(lines)


def test_a_broken_file_keeps_the_keys_and_says_so(keyed):
    keyed.key_file.write_text("keys: [{name: alice, key: SECRET")
    keyed.process.send_signal(signal.SIGHUP)
    assert within(5, lambda: any("the API keys were not reloaded" in line for line in keyed.log))
    assert not any("SECRET" in line for line in keyed.log)
    assert status(keyed, "/v1/models", "alices-key") == 200
    keyed.key_file.write_text(KEYS + "- {name: carol, key: carols-key}\n")  # noticed without a signal
    assert within(5, lambda: status(keyed, "/v1/models", "carols-key") == 200)


def test_a_broken_file_at_start_is_one_line(tmp_path):
    path = tmp_path / "keys.yaml"
    path.write_text("keys: [{name: alice, role: root, key: SECRET}]")
    done = subprocess.run(
        [binary(), "serve", str(small_model()), "--port", "0", "--api-key-file", str(path)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert "keys.yaml:1: `role` must be user, metrics or admin" in done.stderr and "SECRET" not in done.stderr


def test_ps_does_not_show_the_key():
    with serving(small_model(), "--api-key", "open-sesame", "--api_key=two-sesame") as server:
        line = pathlib.Path(f"/proc/{server.process.pid}/cmdline").read_bytes()
        assert b"sesame" not in line and b"--api-key" in line
        assert status(server, "/v1/models", "open-sesame") == status(server, "/v1/models", "two-sesame") == 200


def test_key_new_prints_once_and_stores_the_hash(tmp_path):
    path = tmp_path / "keys.yaml"
    made = {}
    for name, role in (("alice", "user"), ("ops", "admin")):
        done = subprocess.run(
            [binary(), "key", "new", name, "--role", role, "--api-key-file", str(path)],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        made[name] = done.stdout.strip()
        assert made[name] not in path.read_text() and made[name] not in done.stderr
    assert os.stat(path).st_mode & 0o777 == 0o600
    again = subprocess.run([binary(), "key", "new", "ops", "--api-key-file", str(path)], capture_output=True, text=True)
    assert again.returncode == 2 and "there is already a key 'ops'" in again.stderr
    with serving(small_model(), "--api-key-file", str(path)) as server:
        assert status(server, "/v1/models", made["alice"]) == 200
        assert status(server, "/admin/usage", made["ops"]) == 200


def test_rate_limits_as_openais_client_sees_them(tmp_path):
    path = tmp_path / "keys.yaml"
    path.write_text("keys: [{name: alice, key: alices-key, requests_per_minute: 2, tokens_per_minute: 1000}]")
    with serving(small_model(), "--api-key-file", str(path), "--served-model-name", "m") as server:
        with openai.OpenAI(base_url=server.url + "/v1", api_key="alices-key", max_retries=0) as client:
            raw = client.completions.with_raw_response.create(model="m", prompt="x", max_tokens=4)
            assert raw.headers["x-ratelimit-limit-requests"] == "2"
            assert raw.headers["x-ratelimit-remaining-requests"] == "1"
            assert int(raw.headers["x-ratelimit-remaining-tokens"]) < 1000
            client.completions.create(model="m", prompt="x", max_tokens=4)
            with pytest.raises(openai.RateLimitError) as refused:
                client.completions.create(model="m", prompt="x", max_tokens=4)
            assert refused.value.code == "rate_limit_exceeded"
            assert 1 <= int(refused.value.response.headers["retry-after"]) <= 30


def test_prefixes_are_not_shared_between_keys(keyed):
    body = {
        "prompt": "once upon a time there was a little girl who liked to read books " * 3,
        "max_tokens": 1,
        "stream_options": None,
    }

    def cached(key):
        answer = httpx.post(keyed.url + "/v1/completions", json=body, headers=bearer(key), timeout=60).json()
        return answer["usage"]["prompt_tokens_details"]["cached_tokens"]

    assert cached("alices-key") == 0
    assert cached("alices-key") > 0
    assert cached("bobs-key") == 0


def test_usage_is_exact_over_hang_ups(keyed):
    dice = random.Random(5)
    jobs = [
        (
            dice.choice(["alices-key", "bobs-key"]),
            dice.choice(["whole", "stream", "hang up"]),
            dice.randint(1, 40),
            dice.randint(1, 60),
        )
        for _ in range(120)
    ]

    def ask(job):
        key, how, prompt_length, max_tokens = job
        body = {
            "prompt": [dice.randint(3, 200) for _ in range(prompt_length)],
            "max_tokens": max_tokens,
            "ignore_eos": True,
            "n": 2,
        }
        if how == "whole":
            told = httpx.post(keyed.url + "/v1/completions", json=body, headers=bearer(key), timeout=120).json()[
                "usage"
            ]
            return key, told["prompt_tokens"], told["completion_tokens"], True
        body |= {"stream": True, "stream_options": {"include_usage": True, "continuous_usage_stats": True}}
        seen = {}
        with httpx.stream("POST", keyed.url + "/v1/completions", json=body, headers=bearer(key), timeout=120) as answer:
            for line in answer.iter_lines():
                if not line.startswith("data: {"):
                    continue
                chunk = httpx.Response(200, content=line[6:]).json()
                for choice in chunk["choices"]:
                    seen[choice["index"]] = chunk["usage"]["completion_tokens"]
                if how == "hang up":
                    return key, prompt_length, sum(seen.values()), False
        return key, prompt_length, sum(seen.values()), True

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        done = list(pool.map(ask, jobs))

    def idle():
        return usage(keyed)["alice"]["requests"] + usage(keyed)["bob"]["requests"] == len(jobs)

    assert within(30, idle)
    now = usage(keyed)
    metrics = httpx.get(keyed.url + "/metrics", headers=bearer("proms-key")).text
    for name, key in (("alice", "alices-key"), ("bob", "bobs-key")):
        mine = [one for one in done if one[0] == key]
        assert now[name]["requests"] == len(mine) and now[name]["errors"] == 0
        assert now[name]["prompt_tokens"] == sum(one[1] for one in mine)
        complete = sum(one[2] for one in mine if one[3])
        cut = sum(one[2] for one in mine if not one[3])
        left = now[name]["completion_tokens"] - complete
        assert cut <= left <= 2 * sum(job[3] for job in jobs if job[0] == key and job[1] == "hang up")
        assert (
            f'pagoda:key_prompt_tokens_total{{model_name="small",key="{name}"}} {now[name]["prompt_tokens"]}' in metrics
        )
    # The engine counts without keys. Both sums are equal, except for tokens of a last step that were not delivered.
    engine = {
        line.split("{")[0]: float(line.rsplit(" ", 1)[1])
        for line in metrics.splitlines()
        if line.startswith(("vllm:prompt_tokens_total{", "vllm:generation_tokens_total{"))
    }
    assert engine["vllm:prompt_tokens_total"] == sum(now[name]["prompt_tokens"] for name in now)
    ours = sum(now[name]["completion_tokens"] for name in now)
    hung_up = sum(job[1] == "hang up" for job in jobs)
    assert ours <= engine["vllm:generation_tokens_total"] <= ours + 4 * hung_up
