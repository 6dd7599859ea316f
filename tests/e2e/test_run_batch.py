"""`pagoda run-batch`: runs lines for every endpoint without a server, and resumes after a kill."""

import json
import signal
import subprocess
import time

import pytest
from conftest import binary, default_model

FLAGS = ["--max-model-len", "512", "--served-model-name", "smol"]


def line(custom_id, url, body):
    return json.dumps({"custom_id": custom_id, "method": "POST", "url": url, "body": {"model": "smol", **body}})


def run(folder, *flags):
    return subprocess.run(
        [
            binary(),
            "run-batch",
            str(default_model()),
            "-i",
            folder / "in.jsonl",
            "-o",
            folder / "out.jsonl",
            *FLAGS,
            *flags,
        ],
        capture_output=True,
        text=True,
        timeout=300,
    )


def answers(folder):
    return {answer["id"]: answer for answer in map(json.loads, (folder / "out.jsonl").read_text().splitlines())}


CHAT = {"messages": [{"role": "user", "content": "Say hello."}], "temperature": 0, "max_tokens": 8}


def test_a_line_of_each_endpoint_and_wrong_ones(tmp_path):
    (tmp_path / "in.jsonl").write_text(
        "\n".join(
            [
                line("chat", "/v1/chat/completions", CHAT),
                line("responses", "/v1/responses", {"input": "Say hello.", "temperature": 0, "max_output_tokens": 8}),
                line("messages", "/v1/messages", CHAT),
                line("empty", "/v1/messages", {"messages": [{"role": "user", "content": []}], "max_tokens": 2}),
                line(
                    "ollama",
                    "/api/chat",
                    {"messages": CHAT["messages"], "stream": False, "options": {"temperature": 0, "num_predict": 8}},
                ),
                line("tokens", "/tokenize", {"prompt": "Hello"}),
                "{no json",
                "",
                line("nowhere", "/v1/nothing", {}),
                line("field", "/v1/chat/completions", {**CHAT, "temperature": "hot"}),
                line("stream", "/v1/chat/completions", {**CHAT, "stream": True}),
            ]
        )
        + "\n"
    )
    done = run(tmp_path)
    assert done.returncode == 0, done.stderr
    got = answers(tmp_path)
    assert len(got) == 10
    by_id = {answer["custom_id"]: answer for answer in got.values()}
    body = {name: answer["response"]["body"] for name, answer in by_id.items() if answer["response"]}
    text = body["chat"]["choices"][0]["message"]["content"]
    assert text
    assert body["responses"]["output"][0]["content"][0]["text"] == text
    assert body["messages"]["content"][0]["text"] == text
    assert body["ollama"]["message"]["content"] == text
    assert body["tokens"]["count"] >= 1
    assert "line 7" in got["batch_req_7"]["error"]["message"] and got["batch_req_7"]["custom_id"] is None
    status = {name: answer["response"]["status_code"] for name, answer in by_id.items() if answer["response"]}
    assert (status["nowhere"], status["field"], status["stream"], status["chat"]) == (404, 400, 400, 200)
    assert status["empty"] == 200, "an empty list of blocks is an empty turn"
    assert body["field"]["error"]["param"] == "temperature"
    again = run(tmp_path)
    assert again.returncode == 0 and answers(tmp_path) == got, "nothing is answered twice"


def test_after_a_kill_it_goes_on(tmp_path):
    number = 60
    (tmp_path / "in.jsonl").write_text(
        "".join(
            line(
                f"l{i}", "/v1/completions", {"prompt": f"{i}:", "temperature": 0, "max_tokens": 40, "ignore_eos": True}
            )
            + "\n"
            for i in range(number)
        )
    )
    process = subprocess.Popen(
        [
            binary(),
            "run-batch",
            str(default_model()),
            "-i",
            tmp_path / "in.jsonl",
            "-o",
            tmp_path / "out.jsonl",
            *FLAGS,
            "--max-num-seqs",
            "4",
        ],
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 120
    out = tmp_path / "out.jsonl"
    while time.monotonic() < deadline and (not out.exists() or out.read_bytes().count(b"\n") < 3):
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    first = out.read_bytes()
    if first.count(b"\n") >= number:
        pytest.skip("it was done before it could be killed")
    out.write_bytes(first + b'{"id":"batch_req_')  # a file as left by a kill in the middle of a line
    assert run(tmp_path).returncode == 0
    assert out.read_bytes().startswith(first)
    got = [json.loads(text)["custom_id"] for text in out.read_text().splitlines()]
    assert sorted(got) == sorted(f"l{i}" for i in range(number)), "each once"


def test_another_output_is_not_overwritten(tmp_path):
    (tmp_path / "in.jsonl").write_text(line("a", "/v1/chat/completions", CHAT) + "\n")
    (tmp_path / "out.jsonl").write_text("notes\n")
    done = run(tmp_path)
    assert done.returncode == 2 and "is not an answer of run-batch" in done.stderr
    assert (tmp_path / "out.jsonl").read_text() == "notes\n"
