"""--otlp-traces-endpoint with a test collector on loopback."""

import http.server
import json
import socket
import subprocess
import threading
import time

import httpx
from conftest import binary, serving, small_model

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


class Collector:
    def __init__(self):
        self.spans, self.resources, self.answer = [], [], 200
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                assert self.path == "/v1/traces" and self.headers["Content-Type"] == "application/json"
                if outer.answer == 200:
                    for resource in body["resourceSpans"]:
                        outer.resources.append(resource["resource"])
                        for scope in resource["scopeSpans"]:
                            outer.spans += scope["spans"]
                self.send_response(outer.answer)
                self.end_headers()
                self.wfile.write(b"{}")

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def wait_for(self, count, timeout_s=30):
        deadline = time.monotonic() + timeout_s
        while len(self.spans) < count and time.monotonic() < deadline:
            time.sleep(0.05)
        assert len(self.spans) == count, self.spans
        return self.spans


def values(span):
    return {a["key"]: next(iter(a["value"].values())) for a in span["attributes"]}


def complete(server, headers=None, **more):
    return httpx.post(
        server.url + "/v1/completions",
        headers=headers,
        timeout=60,
        json={"prompt": [5] * 20, "max_tokens": 6, "temperature": 0, "ignore_eos": True, **more},
    )


def test_a_span_for_each_request_with_its_phases():
    collector = Collector()
    with serving(small_model(), "--otlp-traces-endpoint", collector.url, "--served-model-name", "small") as server:
        before = time.time_ns()
        assert complete(server, {"traceparent": f"00-{TRACE}-{PARENT}-01"}).status_code == 200
        assert complete(server, {"traceparent": f"00-{TRACE}-{PARENT}-00"}).status_code == 200, "not sampled: not told"
        assert complete(server, {"traceparent": "nonsense"}, stream=True).status_code == 200
        assert complete(server, max_tokens="x").status_code == 400, "never in the engine"
        after = time.time_ns()
        first, second = collector.wait_for(2)
        assert collector.resources[0]["attributes"][0]["value"]["stringValue"] == "pagoda"
        assert (first["traceId"], first["parentSpanId"], first["kind"], first["name"]) == (
            TRACE,
            PARENT,
            2,
            "llm_request",
        )
        assert second["traceId"] != TRACE and "parentSpanId" not in second and len(second["traceId"]) == 32
        assert len(first["spanId"]) == 16 and first["spanId"] != second["spanId"] and "status" not in first
        for span in (first, second):
            times = [int(event["timeUnixNano"]) for event in span["events"]]
            assert [event["name"] for event in span["events"]] == ["queued", "scheduled", "first_token", "last_token"]
            start, end = int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])
            assert times == sorted(times) and start <= times[0] and times[-1] <= end
            assert before - 1e9 < start and end < after + 1e9
            told = values(span)
            assert told["gen_ai.usage.prompt_tokens"] == "20" and told["gen_ai.usage.completion_tokens"] == "6"
            assert told["gen_ai.response.model"] == "small" and told["url.path"] == "/v1/completions"
            assert told["gen_ai.request.max_tokens"] == "6" and told["gen_ai.request.temperature"] == 0
            phases = (
                told["gen_ai.latency.time_in_queue"]
                + told["gen_ai.latency.time_in_model_prefill"]
                + told["gen_ai.latency.time_in_model_decode"]
            )
            assert 0 < phases <= told["gen_ai.latency.e2e"]
        assert values(second)["pagoda.usage.cached_tokens"] == "16"
        assert server.metric("trace_spans_sent_total") == 2


def test_a_client_that_hangs_up_and_a_collector_that_is_not_there():
    collector = Collector()
    with serving(small_model(), "--otlp-traces-endpoint", collector.url) as server:
        with httpx.stream(
            "POST",
            server.url + "/v1/completions",
            timeout=60,
            json={"prompt": [5] * 20, "max_tokens": 400, "ignore_eos": True, "stream": True},
        ) as answer:
            next(answer.iter_lines())
        (span,) = collector.wait_for(1)
        assert values(span)["pagoda.client_hung_up"] is True
        collector.answer = 503
        assert complete(server).status_code == 200
        deadline = time.monotonic() + 30
        while server.metric("trace_spans_dropped_total") < 1:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert any("cannot send spans" in line for line in server.log)


def test_nobody_waits_for_a_collector_that_hangs():
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(1)
        with serving(small_model(), "--otlp-traces-endpoint", f"http://127.0.0.1:{silent.getsockname()[1]}") as server:
            for _ in range(20):
                assert complete(server).status_code == 200
            assert server.metric("trace_spans_sent_total") == 0
            assert server.stop() == 0


def test_an_endpoint_that_is_none():
    done = subprocess.run(
        [binary(), "serve", small_model(), "--port", "0", "--otlp-traces-endpoint", "collector"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2 and "--otlp-traces-endpoint" in done.stderr
