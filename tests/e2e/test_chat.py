"""`pagoda chat` in interactive use: at a terminal, with a line editor and a history, and against a running server."""

import contextlib
import ctypes.util
import http.server
import json
import os
import pty
import re
import select
import subprocess
import threading
import time

import pytest
from conftest import binary, serving, small_model

TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:"


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    path = tmp_path_factory.mktemp("template") / "plain.jinja"
    path.write_text(TEMPLATE)
    return path


@pytest.fixture(scope="module")
def chat_server(template):
    with serving(small_model(), "--chat-template", template, "--served-model-name", "small") as server:
        yield server


class Terminal:
    """Runs a program in a pseudo-terminal."""

    def __init__(self, *command, env):
        self.seen = ""
        pid, self.master = pty.fork()
        if pid == 0:
            os.execvpe(str(command[0]), [str(word) for word in command], {**env, "TERM": "xterm"})
        self.pid = pid
        self.status = None

    def until(self, pattern, timeout_s=60):
        """Returns and consumes the output up to and including the pattern."""
        deadline = time.monotonic() + timeout_s
        while not (found := re.search(pattern, self.seen, re.DOTALL)):
            assert time.monotonic() < deadline, f"no {pattern!r} in {self.seen!r}"
            if select.select([self.master], [], [], 0.2)[0]:
                try:
                    self.seen += os.read(self.master, 4096).decode(errors="replace")
                except OSError:
                    assert re.search(pattern, self.seen, re.DOTALL), f"ended without {pattern!r}: {self.seen!r}"
        before = self.seen[: found.end()]
        self.seen = self.seen[found.end() :]
        return before

    def type(self, text):
        os.write(self.master, text.encode())

    def end(self):
        with contextlib.suppress(OSError):
            while os.read(self.master, 4096):
                pass
        self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self.master)
        return self.status


class EchoServer:
    """Answers with the text of the request, slowly if configured, and records the bodies."""

    def __init__(self):
        self.bodies, self.slow, self.cut, self.keys = [], False, threading.Event(), []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_GET(self):
                outer.keys.append(self.headers["Authorization"])
                self.answer(200, json.dumps({"data": [{"id": "first"}, {"id": "second"}]}))

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.bodies.append(body)
                said = body["messages"][-1]["content"]
                if said == "refuse":
                    return self.answer(429, json.dumps({"error": {"message": "too many\x1b[31m of you"}}))
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.end_headers()
                pieces = [f"<{said}>"] if not outer.slow else ["a "] * 2000
                try:
                    for piece in pieces:
                        self.wfile.write(
                            f"data: {json.dumps({'choices': [{'delta': {'content': piece}}]})}\n\n".encode()
                        )
                        time.sleep(0.02 if outer.slow else 0)
                    self.wfile.write(b"data: [DONE]\n\n")
                except OSError:
                    outer.cut.set()

            def answer(self, status, text):
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"


def environment(folder):
    """Returns the environment without PAGODA_MODEL, which would act as --model."""
    kept = {name: value for name, value in os.environ.items() if name != "PAGODA_MODEL"}
    return {**kept, "HOME": str(folder), "XDG_STATE_HOME": str(folder / "state")}


def test_piped_lines_against_a_server(tmp_path):
    server = EchoServer()
    text = (
        'hello\n"""\ntwo\nlines\n"""\none \\\nmore\n/set temperature 0.5\n/set nothing 1\n/retry\n/clear\n/system be'
        " brief\nrefuse\nlast\n/exit\nnever\n"
    )
    done = subprocess.run(
        [binary(), "chat", "--url", server.url + "/v1/", "--api-key", "secret"],
        input=text,
        capture_output=True,
        text=True,
        timeout=60,
        env=environment(tmp_path),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "<hello>",
        "<two",
        "lines>",
        "<one ",
        "more>",
        "/set NAME NUMBER: temperature, top_p, top_k, min_p, repetition_penalty, max_tokens or seed",
        "<one ",
        "more>",
        "<last>",
    ]
    assert "429, too many" in done.stderr and "\x1b" not in done.stderr
    assert server.keys == ["Bearer secret"] and {body["model"] for body in server.bodies} == {"first"}
    roles = [[m["role"] for m in body["messages"]] for body in server.bodies]
    assert roles == [
        ["user"],
        ["user", "assistant", "user"],
        ["user", "assistant"] * 2 + ["user"],
        ["user", "assistant"] * 2 + ["user"],
        ["system", "user"],
        ["system", "user"],
    ]
    assert [body.get("temperature") for body in server.bodies] == [None, None, None, 0.5, 0.5, 0.5]
    assert not (tmp_path / "state").exists(), "no terminal, no history"


def test_against_pagoda_and_in_this_process_it_says_the_same(chat_server, template, tmp_path):
    said = []
    for how in (["--url", chat_server.url], [small_model(), "--chat-template", template]):
        done = subprocess.run(
            [binary(), "chat", *how, "--temperature", "0", "--max-tokens", "12"],
            input="once\nagain\n",
            capture_output=True,
            text=True,
            timeout=120,
            env=environment(tmp_path),
        )
        assert done.returncode == 0, done.stderr
        said.append(done.stdout)
    assert said[0] == said[1] and said[0].strip()


def test_a_server_that_is_not_there(tmp_path):
    for url, wanted in (("http://127.0.0.1:9", "127.0.0.1:9"), ("nonsense", "--url")):
        done = subprocess.run(
            [binary(), "chat", "--url", url, "-q", "x"],
            capture_output=True,
            text=True,
            timeout=60,
            env=environment(tmp_path),
        )
        assert done.returncode == 2 and wanted in done.stderr, done.stderr


def test_a_terminal_with_history_and_ctrl_c(tmp_path):
    if ctypes.util.find_library("edit") is None:
        pytest.skip("libedit is not installed: there is no history")
    server = EchoServer()
    command = [binary(), "chat", "--url", server.url, "--model", "second"]
    chat = Terminal(*command, env=environment(tmp_path))
    chat.until(r"second at 127\.0\.0\.1:\d+\. /help")
    chat.until("> ")
    chat.type("first line\r")
    chat.until("<first line>")
    chat.until("> ")
    for _ in range(20):  # repeated to include signals that arrive just before the program waits for a key
        chat.type("mistyped")
        chat.until("mistyped")
        chat.type("\x03")  # the line is dropped and not sent
        chat.until("> ")
    chat.type("\x1b[A\r")  # the previous line of the history
    chat.until("<first line>.*> ")
    server.slow = True
    chat.type("long\r")
    chat.until("a a a ")
    chat.type("\x03")
    assert server.cut.wait(30), "the server is hung up on"
    chat.until("> ")
    server.slow = False
    chat.type("after\r")
    chat.until("<after>.*> ")
    chat.type("\x04")  # end of input
    assert chat.end() == 0
    assert [body["messages"][-1]["content"] for body in server.bodies] == ["first line", "first line", "long", "after"]
    assert server.bodies[-1]["messages"][-2]["role"] == "assistant" and server.bodies[-1]["messages"][-2][
        "content"
    ].startswith("a a ")
    kept = tmp_path / "state/pagoda/chat_history"
    assert "after" in kept.read_text() and kept.stat().st_mode & 0o077 == 0
    again = Terminal(*command, env=environment(tmp_path))
    again.until("> ")
    again.type("\x1b[A\r")
    again.until("<after>.*> ")
    again.type("/exit\r")
    assert again.end() == 0
    private = Terminal(*command, "--no-history", env=environment(tmp_path / "other"))
    private.until("> ")
    private.type("secret\r")
    private.until("<secret>.*> ")
    private.type("/exit\r")
    assert private.end() == 0 and not (tmp_path / "other").exists()


def test_ctrl_c_ends_the_answer_and_not_the_program(template, tmp_path):
    chat = Terminal(
        binary(),
        "chat",
        small_model(),
        "--chat-template",
        template,
        "--temperature",
        "0",
        "--max-tokens",
        "400",
        env=environment(tmp_path),
    )
    chat.until("> ")
    chat.type("once upon\r")
    chat.until("once upon.*\n.{3,}")
    chat.type("\x03")
    chat.until("> ")
    chat.type("/exit\r")
    assert chat.end() == 0
