"""A loopback proxy that records its traffic: the authoritative record of a program's requests and the answers."""

import dataclasses
import http.client
import http.server
import threading


@dataclasses.dataclass
class Exchange:
    method: str
    path: str
    request: bytes
    status: int = 0
    answer: bytes = b""


class LoggingProxy(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port):
        self.exchanges, self.target = [], port
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def body(self):
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            data = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                data += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return data
        return self.rfile.read(int(self.headers.get("content-length") or 0))

    def forward(self):
        self.close_connection = True  # an answer ends when its connection is closed
        exchange = Exchange(self.command, self.path, self.body())
        self.server.exchanges.append(exchange)
        upstream = http.client.HTTPConnection("127.0.0.1", self.server.target, timeout=120)
        dropped = ("host", "connection", "transfer-encoding", "content-length", "accept-encoding", "expect")
        headers = {name: value for name, value in self.headers.items() if name.lower() not in dropped}
        try:
            upstream.request(self.command, self.path, exchange.request or None, headers)
            answer = upstream.getresponse()
            exchange.status = answer.status
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("connection", "transfer-encoding", "content-length", "date", "server"):
                    self.send_header(name, value)
            self.send_header("connection", "close")
            self.end_headers()
            while piece := answer.read1(1 << 16):
                exchange.answer += piece
                self.wfile.write(piece)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the program has disconnected
        finally:
            upstream.close()

    do_GET = do_POST = do_HEAD = do_DELETE = do_OPTIONS = forward
