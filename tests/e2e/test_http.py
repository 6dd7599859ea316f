"""The HTTP interface of the program: health, metrics, keys, signals, load."""

import concurrent.futures
import os
import shutil
import signal
import socket
import subprocess
import threading
import time

import httpx
import pytest
from conftest import serving, small_model

BODY = {"prompt": "Once upon a time", "max_tokens": 40, "temperature": 0, "ignore_eos": True}


def test_small_endpoints(http, valid):
    assert http.get("/health").json() == {"status": "ok"}
    assert http.get("/version").json()["version"]
    assert http.get("/load").json() == {"server_load": 0}
    assert http.get("/ping").status_code == 200
    valid("ListModelsResponse", http.get("/v1/models").json())
    for path in ("/nowhere", "/v1"):
        valid("ErrorResponse", http.get(path).json())
    assert http.get("/v1/completions").status_code == 405


def test_allowed_hosts():
    with serving(small_model(), "--allowed-hosts", "my.box,Other") as server:

        def status(host):
            return httpx.get(server.url + "/health", headers={"Host": host}).status_code

        assert status(f"My.Box:{server.port}") == status("other") == status("localhost") == 200
        assert status(f"evil.example:{server.port}") == 403


def test_tokenize_round_trip(http):
    text = "Hello, wörld! 你好 🙂\n\tdone"
    tokens = http.post(
        "/tokenize", json={"prompt": text, "add_special_tokens": False, "return_token_strs": True}
    ).json()
    assert tokens["count"] == len(tokens["tokens"]) == len(tokens["token_strs"])
    assert tokens["max_model_len"] == 2048
    # The field names of vLLM and llama.cpp.
    assert http.post("/detokenize", json={"tokens": tokens["tokens"]}).json() == {"prompt": text, "content": text}


def test_metrics_satisfy_promtool(server, http):
    http.post("/v1/completions", json={**BODY, "max_tokens": 4})
    text = http.get("/metrics").text
    for name in (
        "num_requests_running",
        "num_requests_waiting",
        "kv_cache_usage_perc",
        "prompt_tokens_total",
        "generation_tokens_total",
        "request_success_total",
        "time_to_first_token_seconds_bucket",
        "e2e_request_latency_seconds_bucket",
    ):
        assert f"\nvllm:{name}" in "\n" + text, name
    ours = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE pagoda:")}
    assert ours == {
        "pagoda:" + name
        for name in (
            "bits_depend_on_batch",
            "kv_cache_slots_perc",
            "kv_cache_saved_perc",
            "num_preemptions_by_swap_total",
            "swapped_out_blocks_total",
            "swapped_in_blocks_total",
            "kv_blocks_copied_total",
            "padded_tokens_total",
            "kv_map_calls_total",
            "kv_mapped_pages_total",
            "kv_map_seconds_total",
            "kv_map_delayed_steps_total",
            "log_lines_dropped_total",
            "requests_refused_total",
            "constraint_masks_total",
            "settled_rows_total",
            "key_prompt_tokens_total",
            "key_cached_tokens_total",
            "key_completion_tokens_total",
            "key_requests_total",
            "key_errors_total",
            "model_files_unchanged",
            "weight_cache_write_bytes",
            "weight_cache_written_bytes",
            "weight_cache_write_failures",
        )
    }
    assert "http_requests_total{" in text and "process_resident_memory_bytes" in text
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed: the metrics' format is not checked")
    checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
    # vLLM's names have a colon, and one of its histograms ends in _total, so promtool's style check complains (exit
    # code 3), as it does for vLLM. There may be no other findings, and the format itself must be valid.
    assert checked.returncode in (0, 3), checked.stderr
    complaints = [line for line in checked.stderr.splitlines() if "should not contain ':'" not in line]
    assert complaints in (
        [],
        ['vllm:iteration_tokens_total non-counter metrics should not have "_total" suffix'],
    ), complaints


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"prompt":"\xff"}', b'{"prompt":"a","prompt":"b"}', b'{"prompt":NaN}', b"[" * 100]
)
def test_broken_bodies(http, body):
    answer = http.post("/v1/completions", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"


def test_two_hundred_streams_of_which_a_third_hangs_up(small_server):
    def stream(number):
        body = {
            **BODY,
            "prompt": f"Story number {number} tells",
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        text = ""
        with httpx.stream("POST", small_server.url + "/v1/completions", json=body, timeout=300) as answer:
            assert answer.status_code == 200
            for line in answer.iter_lines():
                text += line + "\n"
                if number % 3 == 0 and text.count("data: ") >= 3:
                    return None  # disconnects
        return text

    with concurrent.futures.ThreadPoolExecutor(200) as pool:
        streams = list(pool.map(stream, range(200)))
    complete = [s for s in streams if s is not None]
    assert len(complete) == 133
    for text in complete:
        assert text.rstrip().endswith("data: [DONE]")
        assert '"completion_tokens":40' in text
    assert small_server.wait_until_idle(), "a request was leaked"
    assert small_server.metric("kv_cache_usage_perc") == 0, "a block was leaked"


def test_a_hang_up_frees_its_blocks(small_server):
    body = {**BODY, "max_tokens": 400, "stream": True}
    aborted = small_server.metric("request_success_total")
    for _ in range(20):
        with httpx.stream("POST", small_server.url + "/v1/completions", json=body, timeout=60) as answer:
            next(answer.iter_lines())
        assert small_server.wait_until_idle(10)
    assert small_server.metric("kv_cache_usage_perc") == 0
    assert small_server.metric("request_success_total") >= aborted


def test_keys():
    with serving(small_model(), "--api-key", "sesame") as server:
        assert httpx.get(server.url + "/health").status_code == 200
        for path in ("/v1/models", "/metrics", "/version", "/nowhere"):
            assert httpx.get(server.url + path).status_code == 401
        assert httpx.get(server.url + "/v1/models", headers={"Authorization": "Bearer wrong"}).status_code == 401
        assert httpx.get(server.url + "/v1/models", headers={"Authorization": "Bearer sesame"}).status_code == 200
        assert not any("sesame" in line for line in server.log)


def test_metrics_all_under_pagoda():
    with serving(small_model(), "--metrics-prefix", "pagoda") as server:
        text = httpx.get(server.url + "/metrics").text
        assert (
            "\npagoda:num_requests_running{" in text and "\npagoda:padded_tokens_total{" in text and "vllm:" not in text
        )


def test_sigterm_lets_running_requests_finish():
    with serving(small_model()) as server:
        lines = []

        def stream():
            with httpx.stream(
                "POST", server.url + "/v1/completions", json={**BODY, "max_tokens": 300, "stream": True}, timeout=120
            ) as answer:
                lines.extend(answer.iter_lines())

        thread = threading.Thread(target=stream)
        thread.start()
        while server.metric("num_requests_running") == 0 and thread.is_alive():
            time.sleep(0.001)
        assert server.stop(signal.SIGTERM) == 0
        thread.join()
        assert "data: [DONE]" in lines and not any('"error"' in line for line in lines)


def test_whoever_connects_while_the_server_drains_is_answered_503():
    with serving(small_model()) as server, socket.create_connection(("127.0.0.1", server.port), 60) as held:
        body = b'{"prompt":"hi"}'
        head = f"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
        held.sendall(head.encode() + b"Content-Type: application/json\r\nExpect: 100-continue\r\n\r\n")
        assert held.recv(100).startswith(b"HTTP/1.1 100")  # so the request is running
        server.process.send_signal(signal.SIGTERM)
        while not any("Shutting down" in line for line in server.log):
            time.sleep(0.01)
        for path, status in (("/health", 503), ("/version", 200)):
            answer = httpx.get(server.url + path)  # on a separate connection
            assert answer.status_code == status and answer.headers["connection"] == "close"
        assert httpx.post(server.url + "/v1/completions", json=BODY).status_code == 503
        assert server.process.poll() is None
        held.sendall(body)
        assert held.recv(1000).startswith(b"HTTP/1.1 200")
        assert server.process.wait(timeout=30) == 0


def test_sigterm_when_idle_is_quick():
    with serving(small_model()) as server:
        started = time.monotonic()
        assert server.stop(signal.SIGTERM) == 0
        assert time.monotonic() - started < 5


def test_idle_connections_cost_little(small_server):
    sockets = [socket.create_connection(("127.0.0.1", small_server.port)) for _ in range(500)]
    try:

        def rss():
            with open(f"/proc/{small_server.process.pid}/status", encoding="ascii") as status:
                return int(next(line for line in status if line.startswith("VmRSS")).split()[1])

        assert httpx.get(small_server.url + "/health").status_code == 200
        assert rss() > 0
    finally:
        for connection in sockets:
            connection.close()


def test_an_idle_server_uses_no_cpu(small_server):
    assert small_server.wait_until_idle()

    def cpu_ticks():
        with open(f"/proc/{small_server.process.pid}/stat", encoding="ascii") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])

    time.sleep(0.5)
    before = cpu_ticks()
    time.sleep(2)
    assert (cpu_ticks() - before) / os.sysconf("SC_CLK_TCK") < 0.05
