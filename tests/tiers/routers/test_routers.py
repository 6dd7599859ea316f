"""Third-party routers in front of two servers."""

import concurrent.futures
import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time

import httpx
from conftest import Server, binary, small_model

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
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "vllm_router.launch_router",
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
            "--prometheus-port",
            str(metrics),
            "--worker-urls",
            *(server.url for server in servers),
            *flags,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
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
    """Sends interleaved multi-turn conversations, in which each turn repeats all earlier text. Returns the share of
    prompt tokens found in a cache."""
    random_ = random.Random(seed)
    texts = [[random_.randrange(300, 500) for _ in range(64)] for _ in range(count)]
    prompt = cached = 0
    with httpx.Client(base_url=url, timeout=60) as http:
        for _ in range(turns):
            order = list(range(count))
            random_.shuffle(order)
            for i in order:
                answer = http.post(
                    "/v1/completions",
                    json={
                        "model": NAME,
                        "prompt": texts[i],
                        "max_tokens": 8,
                        "temperature": 0,
                        "ignore_eos": True,
                        "return_token_ids": True,
                    },
                )
                assert answer.status_code == 200, answer.text
                body = answer.json()
                prompt += body["usage"]["prompt_tokens"]
                cached += body["usage"]["prompt_tokens_details"]["cached_tokens"]
                texts[i] += body["choices"][0]["token_ids"] + [random_.randrange(300, 500) for _ in range(32)]
    return cached / prompt


@contextlib.contextmanager
def two_servers_with_events(*flags):
    """Starts two servers, and yields them with vllm-router's arguments for the kv_aware policy and their event
    endpoints."""
    ports = [free_port() for _ in range(2)]
    servers = [
        Server(
            small_model(),
            "--served-model-name",
            NAME,
            "--block-size",
            "16",
            *flags,
            "--kv-events-config",
            json.dumps({"enable_kv_cache_events": True, "endpoint": f"tcp://*:{port}"}),
        )
        for port in ports
    ]
    sources = [
        part
        for port, server in zip(ports, servers)
        for part in ("--kv-event-source", f"{server.url}=tcp://127.0.0.1:{port}")
    ]
    try:
        yield servers, ("--policy", "kv_aware", "--kv-event-block-size", "16", "--kv-event-model", NAME, *sources)
    finally:
        for server in servers:
            server.stop()


def complete(url, prompt):
    answer = httpx.post(
        url + "/v1/completions", timeout=60, json={"model": NAME, "prompt": prompt, "max_tokens": 1, "temperature": 0}
    )
    assert answer.status_code == 200, answer.text
    return answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"]


def test_kv_aware_routing_goes_where_events_say_it_is_cached():
    """Only events can tell the router what is cached, since the prompts were sent directly to each server."""
    with two_servers_with_events() as (servers, kv_aware), vllm_router(servers, *kv_aware) as (url, log):
        for i, server in enumerate(servers):
            prompt = [300 + i] * 100
            # Events sent before the router has subscribed are lost: repeat them until it has received them.
            deadline = time.monotonic() + 60
            while True:
                httpx.post(server.url + "/reset_prefix_cache", timeout=30)
                complete(server.url, prompt)
                before = [one.metric("request_success_total") for one in servers]
                cached = complete(url, prompt)
                went = [one.metric("request_success_total") - b for one, b in zip(servers, before)]
                if went[i] == 1:
                    break
                assert time.monotonic() < deadline, "".join(log[-20:])
            assert cached == 96
        assert not [line for line in log if "decode" in line], log[-20:]


def test_kv_aware_routing_finds_what_events_tell():
    """vllm-router's kv_aware policy follows Pagoda's events: the turns of a conversation reach the server that has it
    cached."""
    with two_servers_with_events() as (servers, kv_aware):
        with vllm_router(servers, "--policy", "round_robin") as (url, _):
            round_robin = conversations(url)
        for server in servers:
            httpx.post(server.url + "/reset_prefix_cache", timeout=30)
        with vllm_router(servers, *kv_aware) as (url, log):
            by_events = conversations(url, seed=4)
    print(f"cached share: round_robin {round_robin:.3f}, kv_aware {by_events:.3f}")
    assert by_events > round_robin + 0.05, "".join(log[-20:])


# One request at a time: routing then depends only on cached content, not on the load of the machine.
WORKLOAD = "uniform:input=48-80,output=8,rounds=4,history=440,requests=150,seed=5,rate="


def found(servers):
    """Returns the number of tokens found in the prefix caches of all servers, and the number looked up."""
    return [sum(server.metric(f"prefix_cache_{name}_total") for server in servers) for name in ("hits", "queries")]


def test_the_simulators_router_predicts_the_hit_rate():
    """Runs the same conversations through vllm-router in front of two servers and through `pagoda simulate`: the
    increase is within a tenth of the prediction."""
    seen, predicted = {}, {}
    with two_servers_with_events("--kv-cache-memory-bytes", "16MiB", "--max-model-len", "512") as (servers, kv_aware):
        for router, flags in {"round-robin": ("--policy", "round_robin"), "kv-aware": kv_aware}.items():
            for server in servers:
                assert httpx.post(server.url + "/reset_prefix_cache", timeout=30).status_code == 200
            before = found(servers)
            with vllm_router(servers, *flags) as (url, _):
                subprocess.run(
                    [
                        binary(),
                        "bench",
                        "serve",
                        "--base-url",
                        url,
                        "--model",
                        NAME,
                        "--workload",
                        WORKLOAD + "1000",
                        "--max-concurrency",
                        "1",
                        "--ignore-eos",
                    ],
                    check=True,
                    capture_output=True,
                    timeout=200,
                )
            hits, queries = (b - a for a, b in zip(before, found(servers)))
            seen[router] = hits / queries
            done = subprocess.run(
                [
                    binary(),
                    "simulate",
                    small_model(),
                    "--cost-model",
                    "a100-40gb/opt-13b/tp1",
                    "--block-size",
                    "16",
                    "--max-model-len",
                    "512",
                    "--replicas",
                    "2",
                    "--router",
                    router,
                    "--workload",
                    WORKLOAD + "0.01",
                    "--output-json",
                    "-",
                ],
                check=True,
                capture_output=True,
                timeout=60,
            )
            cache = json.loads(done.stdout)["prefix_cache"]
            predicted[router] = cache["hits"] / cache["queries"]
    print(
        "share of prompt tokens found in a cache:",
        *(f"{name}: {seen[name]:.3f}, simulated {predicted[name]:.3f}" for name in seen),
    )
    for name in seen:
        assert abs(seen[name] / predicted[name] - 1) < 0.1, (seen, predicted)
    rise, said = (shares["kv-aware"] - shares["round-robin"] for shares in (seen, predicted))
    print(f"rise: {rise:.3f}, simulated {said:.3f}")
    assert abs(rise / said - 1) < 0.1


def test_cache_aware_routing_loses_nothing_when_a_server_goes():
    with two_servers() as servers, vllm_router(servers, "--policy", "cache_aware") as (url, log):
        share = conversations(url)
        print(f"cached share: cache_aware {share:.3f}")

        def ask(i):
            answer = httpx.post(
                url + "/v1/completions",
                timeout=60,
                json={"model": NAME, "prompt": [300 + i % 200] * 40, "max_tokens": 20, "ignore_eos": True},
            )
            return answer.status_code, answer.text

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            asked = [pool.submit(ask, i) for i in range(100)]
            while sum(future.done() for future in asked) < 20:
                time.sleep(0.01)
            servers[0].process.send_signal(signal.SIGTERM)
            answers = [future.result(60) for future in asked]
        # Each request is answered, or ends with an error.
        assert all(status == 200 or status >= 500 for status, _ in answers), answers
        assert sum(status == 200 for status, _ in answers) >= 90, [a for a in answers if a[0] != 200][:3]
        for i in range(20):  # the remaining server continues
            assert ask(i)[0] == 200


def test_litellms_router_goes_round_a_dead_server(tmp_path):
    import litellm

    template = tmp_path / "plain.jinja"
    template.write_text("{% for m in messages %}{{ m.content }}\n{% endfor %}")
    with two_servers("--chat-template", str(template)) as servers:
        # The server is drawn at random each time: enough retries that not all draw the dead server.
        router = litellm.Router(
            num_retries=12,
            retry_after=0,
            routing_strategy="simple-shuffle",
            model_list=[
                {
                    "model_name": "any",
                    "litellm_params": {
                        "model": f"openai/{NAME}",
                        "api_base": server.url + "/v1",
                        "api_key": "none",
                        "timeout": 60,
                    },
                }
                for server in servers
            ],
        )

        def ask():
            return (
                router.completion(model="any", messages=[{"role": "user", "content": "once"}], max_tokens=4)
                .choices[0]
                .message.content
            )

        for _ in range(10):
            assert ask() is not None
        counts = [server.metric("request_success_total") for server in servers]
        assert all(count > 0 for count in counts), counts
        servers[1].process.kill()
        servers[1].process.wait()
        for _ in range(10):
            assert ask() is not None
