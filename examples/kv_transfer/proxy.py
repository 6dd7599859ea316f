"""A proxy for disaggregated prefill, as with vLLM's connectors: one server computes prompts, another generates.

    proxy.py LISTEN_PORT PREFILL_URL DECODE_URL

Each request first goes to the prefill server with a limit of one token. The kv_transfer_params of the response are
added to the request to the decode server, whose response is streamed to the client. This is a starting point: it has
no limits, no retries and no load balancing.
"""

import http.server
import json
import sys
import urllib.error
import urllib.request

FOR_DECODE = {
    "do_remote_decode": True,
    "do_remote_prefill": False,
    "remote_engine_id": None,
    "remote_block_ids": None,
    "remote_host": None,
    "remote_port": None,
}
ONE_TOKEN = {"max_tokens": 1, "max_completion_tokens": 1, "min_tokens": 0, "n": 1, "stream": False}


def post(url, body, headers):
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    return urllib.request.urlopen(request, timeout=600)


class Proxy(http.server.BaseHTTPRequestHandler):
    prefill = decode = ""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        headers = {"Content-Type": "application/json"}
        if key := self.headers.get("Authorization"):
            headers["Authorization"] = key
        first = {k: v for k, v in body.items() if k != "stream_options"}
        first |= {k: v for k, v in ONE_TOKEN.items() if k in body or k in ("max_tokens", "stream")}
        try:
            with post(self.prefill + self.path, first | {"kv_transfer_params": FOR_DECODE}, headers) as answer:
                params = json.load(answer).get("kv_transfer_params")
            with post(self.decode + self.path, body | {"kv_transfer_params": params}, headers) as answer:
                self.pass_on(answer.status, answer)
        except urllib.error.HTTPError as refused:
            self.pass_on(refused.code, refused)

    def pass_on(self, status, answer):
        self.send_response(status)
        self.send_header("Content-Type", answer.headers.get("Content-Type", "application/json"))
        self.send_header("Connection", "close")
        self.end_headers()
        while piece := answer.read1(1 << 16):
            self.wfile.write(piece)

    def log_message(self, *args):
        pass


def main():
    port, Proxy.prefill, Proxy.decode = int(sys.argv[1]), sys.argv[2].rstrip("/"), sys.argv[3].rstrip("/")
    with http.server.ThreadingHTTPServer(("127.0.0.1", port), Proxy) as server:
        print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
