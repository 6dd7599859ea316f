"""Routers that other people wrote, before two servers."""
import concurrent.futures
import contextlib
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time

import httpx
import pytest

from conftest import Server, small_model

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
NAME = "small"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def two_servers(*flags):
    servers = [Server(small_model(), "--served-model-name", NAME, *flags) for _ in range(2)]
    try:
        yield servers
    finally:
        for server in servers:
            server.stop()


@contextlib.contextmanager
def vllm_router(servers, *flags):
    port, metrics = free_port(), free_port()
    log = []
    process = subprocess.Popen([sys.executable, "-m", "vllm_router.launch_router", "--host", "127.0.0.1", "--port", str(port),
                                "--prometheus-port", str(metrics), "--worker-urls", *(server.url for server in servers), *flags],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    import threading
    threading.Thread(target=lambda: log.extend(process.stdout), daemon=True).start()
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + 60
        while True:
            with contextlib.suppress(httpx.HTTPError):
                if httpx.get(url + "/health", timeout=5).status_code == 200:
                    break
            assert process.poll() is None and time.monotonic() < deadline, "".join(log[-20:])
            time.sleep(0.2)
        yield url, log
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def conversations(url, count=12, turns=4, seed=3):
    """Multi-turn texts that come interleaved, as users do: each turn has all that was said before. Of all prompt tokens,
    those that were found in a cache."""
    random_ = random.Random(seed)
    texts = [[random_.randrange(300, 500) for _ in range(64)] for _ in range(count)]
    prompt = cached = 0
    with httpx.Client(base_url=url, timeout=60) as http:
        for _ in range(turns):
            order = list(range(count))
            random_.shuffle(order)
            for i in order:
                answer = http.post("/v1/completions", json={"model": NAME, "prompt": texts[i], "max_tokens": 8, "temperature": 0,
                                                            "ignore_eos": True, "return_token_ids": True})
                assert answer.status_code == 200, answer.text
                body = answer.json()
                prompt += body["usage"]["prompt_tokens"]
                cached += body["usage"]["prompt_tokens_details"]["cached_tokens"]
                texts[i] += body["choices"][0]["token_ids"] + [random_.randrange(300, 500) for _ in range(32)]
    return cached / prompt


def test_kv_aware_routing_finds_what_events_tell(tmp_path):
    """vllm-router's kv_aware policy goes by our events: turns of a conversation meet the server that has it."""
    def events(i):
        return f"tcp://127.0.0.1:{ports[i]}"
    ports = [free_port() for _ in range(2)]
    servers = [Server(small_model(), "--served-model-name", NAME, "--block-size", "16", "--kv-events-config",
                      json.dumps({"enable_kv_cache_events": True, "endpoint": f"tcp://*:{port}"})) for port in ports]
    try:
        with vllm_router(servers, "--policy", "round_robin") as (url, _):
            by_turns = conversations(url)
        for server in servers:
            httpx.post(server.url + "/reset_prefix_cache", timeout=30)
        sources = [part for i, server in enumerate(servers) for part in ("--kv-event-source", f"{server.url}={events(i)}")]
        with vllm_router(servers, "--policy", "kv_aware", "--kv-event-block-size", "16", *sources) as (url, log):
            by_events = conversations(url, seed=4)
    finally:
        for server in servers:
            server.stop()
    print(f"cached share: round_robin {by_turns:.3f}, kv_aware {by_events:.3f}")
    assert by_events > by_turns + 0.05, "".join(log[-20:])


def test_cache_aware_routing_loses_nothing_when_a_server_goes():
    with two_servers() as servers, vllm_router(servers, "--policy", "cache_aware") as (url, log):
        share = conversations(url)
        print(f"cached share: cache_aware {share:.3f}")

        def ask(i):
            answer = httpx.post(url + "/v1/completions", timeout=60, json={
                "model": NAME, "prompt": [300 + i % 200] * 40, "max_tokens": 20, "ignore_eos": True})
            return answer.status_code, answer.text

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            asked = [pool.submit(ask, i) for i in range(100)]
            while sum(future.done() for future in asked) < 20:
                time.sleep(0.01)
            servers[0].process.send_signal(signal.SIGTERM)
            answers = [future.result(60) for future in asked]
        # Each is answered, or says that it failed.
        assert all(status == 200 or status >= 500 for status, _ in answers), answers
        assert sum(status == 200 for status, _ in answers) >= 90, [a for a in answers if a[0] != 200][:3]
        for i in range(20):  # and the one that is left serves on
            assert ask(i)[0] == 200


def test_litellms_router_goes_round_a_dead_server():
    import litellm
    with two_servers() as servers:
        router = litellm.Router(num_retries=3, retry_after=0, routing_strategy="simple-shuffle", model_list=[
            {"model_name": "any", "litellm_params": {"model": f"text-completion-openai/{NAME}", "api_base": server.url + "/v1", "api_key": "none",
                                                     "timeout": 60}} for server in servers])

        def ask():
            return router.text_completion(model="any", prompt="once", max_tokens=4).choices[0].text

        for _ in range(10):
            assert ask() is not None
        counts = [server.metric("request_success_total") for server in servers]
        assert all(count > 0 for count in counts), counts
        servers[1].process.kill()
        servers[1].process.wait()
        for _ in range(10):
            assert ask() is not None
