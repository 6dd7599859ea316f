"""A server behind the real page with exact answers that no model gives on demand: hostile texts, tool calls, errors.
It gets the files of the page from a real server and answers the API itself."""

import contextlib
import http.server
import json
import threading

import httpx


def chunk(delta, finish=None, index=0, **more):
    return {
        "id": "chatcmpl-x",
        "object": "chat.completion.chunk",
        "model": "fake",
        "created": 1,
        "choices": [{"index": index, "delta": delta, "finish_reason": finish, "logprobs": None}],
        **more,
    }


USAGE = {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}}


def says(*texts, **more):
    return [
        chunk({"role": "assistant", "content": ""}),
        *(chunk({"content": text}) for text in texts),
        chunk({}, "stop"),
        USAGE,
    ]


class FakeApi:
    def __init__(self, real_url):
        self.real, self.answers, self.requests, self.prefix = real_url, [], [], ""
        self.model = "fake"
        self.props = None  # instead of the real server's
        self.props_ready = threading.Event()  # /props answers once it is set
        self.props_ready.set()

    def reply(self, *, status=200, chunks=None, body=None, headers=(), cut=False):
        self.answers.append((status, chunks, body, headers, cut))


@contextlib.contextmanager
def faking(real_url, prefix=""):
    fake = FakeApi(real_url)

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def give(self, status, body, headers):
            self.send_response(status)
            for name, value in headers:
                self.send_header(name, value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self):
            if not self.path.startswith(prefix):
                return self.give(404, b"{}", [])
            path = self.path[len(prefix) :] or "/"
            if path == "/v1/models":
                return self.give(
                    200, json.dumps({"data": [{"id": fake.model}]}).encode(), [("content-type", "application/json")]
                )
            if path == "/props":
                fake.props_ready.wait(60)
            if path == "/props" and fake.props is not None:
                return self.give(200, json.dumps(fake.props).encode(), [("content-type", "application/json")])
            got = httpx.get(fake.real + path, headers={"accept-encoding": "identity"})
            kept = [
                (k, v) for k, v in got.headers.items() if k not in ("content-length", "connection", "transfer-encoding")
            ]
            self.give(got.status_code, got.content, kept)

        def do_POST(self):
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            fake.requests.append((request, dict(self.headers)))
            status, chunks, body, headers, cut = (
                fake.answers.pop(0) if fake.answers else (200, says("ok"), None, (), False)
            )
            if chunks is None:
                return self.give(status, json.dumps(body).encode(), [("content-type", "application/json"), *headers])
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("connection", "close")
            self.end_headers()
            for one in chunks:
                self.wfile.write(b"data: " + json.dumps(one).encode() + b"\n\n")
                self.wfile.flush()
            if not cut:
                self.wfile.write(b"data: [DONE]\n\n")
            self.close_connection = True

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    fake.url = f"http://127.0.0.1:{server.server_port}{prefix}/"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
