"""Mistakes of new users: each gives one line that says what is wrong, where, and what to do; exit code 2."""

import json
import socket
import subprocess

import httpx
import pytest
from conftest import binary, default_model, serving, small_model
from test_cli import run
from test_start_lines import write_folder

MODEL = "MODEL"  # stands for the small model, which is made when a test first needs it
MISTAKES = [
    (["serve", "smolm2"], "did you mean smollm2?"),
    (["pull", "smolm2"], "did you mean smollm2?"),
    (["run", "qwen33:8b", "hi"], "did you mean qwen3:8b?"),
    (["serve", MODEL, "--tokenizer", "nowhere"], "--tokenizer: cannot read 'nowhere': No such file"),
    (["serve", MODEL, "--tool-call-parser", "hermess"], "there is no parser 'hermess'; did you mean hermes?"),
    (["serve", MODEL, "--reasoning-parser", "nonsense"], "docs/tools.md lists them"),
    (["serve", MODEL, "--prefix-file", "nowhere.json"], "--prefix-file: cannot read 'nowhere.json'"),
    (["serve", MODEL, "--ssl-certfile", "nowhere.pem"], "--ssl-certfile nowhere.pem: No such file"),
    (["serve", MODEL, "--api-key-file", "nowhere.yaml"], "API key file nowhere.yaml: No such file"),
    (["serve", MODEL, "--kv-cache-memory-bytes", "1"], "--kv-cache-memory-bytes 1 is too small: a block of"),
    (["serve", MODEL, "--quantization", "torchao"], "'torchao' is not one of auto-round, awq, awq_marlin"),
    (["chat", "--url", "http://127.0.0.1:1", "-q", "hi"], "refused: start a server with `pagoda serve MODEL`"),
    (["perplexity", MODEL], "--file is required; see pagoda perplexity --help"),
    (["generate", "-i", "nowhere.jsonl", MODEL], "cannot read nowhere.jsonl: No such file"),
    (["generate", "-o", "/nowhere/x", "hi", MODEL], "cannot write /nowhere/x: No such file"),
    (["stop", "nobody"], "see pagoda ps"),
]


@pytest.mark.parametrize("arguments,said", MISTAKES, ids=[" ".join(arguments[:3]) for arguments, _ in MISTAKES])
def test_a_mistake_gets_one_line(arguments, said):
    typed = [str(small_model()) if word == MODEL else word for word in arguments]
    code, out, err = run(*typed)
    assert (code, out) == (2, "")
    assert said in err and err.startswith("pagoda: ") and err.count("\n") == 1, err
    assert err.count("127.0.0.1:1") <= 1


def test_a_flag_of_one_letter_is_not_guessed():
    assert run("serve", "-x")[2] == "pagoda: unknown flag -x; see pagoda serve --help\n"


def test_a_full_disk_is_named_at_once(tmp_path):
    lines = tmp_path / "in.jsonl"
    lines.write_text(json.dumps({"prompt": "a", "max_tokens": 2}) + "\n")
    for arguments in (["-i", str(lines)], ["hello"]):
        code, _, err = run("generate", *arguments, "-o", "/dev/full", "--model", str(small_model()))
        assert code == 2 and "pagoda: cannot write /dev/full: No space left on device" in err, err


def test_too_little_memory_is_not_blamed_on_a_flag():
    command = f"ulimit -v 300000; exec {binary()} chat {default_model()} -q hi"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    # The allocation that fails first depends on whether the weights are packed already.
    assert "not enough memory" in done.stderr and "ulimit -v" in done.stderr, done.stderr
    assert "--" not in done.stderr, done.stderr


def test_help_fits_a_terminal_and_wraps():
    for width in (60, 80, 120):
        code, out, _ = run("serve", "--help", COLUMNS=str(width))
        long = [line for line in out.splitlines() if len(line) > width and line.startswith(" " * 28)]
        assert code == 0 and not [line for line in long if " " in line.strip()], long


def test_a_log_in_json_has_nothing_else_beside_it():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            [binary(), "serve", small_model(), "--log-format", "json", "--port", port],
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert done.returncode == 2 and done.stdout == ""
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert lines[-1]["level"] == "error" and "port is in use" in lines[-1]["message"]
    with serving(small_model(), "--log-format", "json", "--access-log", "--no-weight-cache") as server:
        assert httpx.get(server.url + "/nothing").status_code == 404
    assert {json.loads(line)["level"] for line in server.log} >= {"info"}


def test_flags_that_scripts_for_peers_have():
    with serving(small_model(), "--return-tokens-as-token-ids", "-dev", "none") as server:
        body = {"prompt": "a", "max_tokens": 2, "logprobs": 1, "ignore_eos": True}
        shown = httpx.post(server.url + "/v1/completions", json=body).json()["choices"][0]["logprobs"]["tokens"]
        assert all(token.startswith("token_id:") for token in shown)
        body["return_tokens_as_token_ids"] = False
        shown = httpx.post(server.url + "/v1/completions", json=body).json()["choices"][0]["logprobs"]["tokens"]
        assert not any(token.startswith("token_id:") for token in shown)


def test_a_wrong_path_and_a_wrong_model_are_named():
    with serving(small_model(), "--served-model-name", "right") as server:
        error = httpx.post(server.url + "/v1/chat/completion", json={}).json()["error"]["message"]
        assert "Invalid URL (POST /v1/chat/completion)" in error and "/v1/" in error
        error = httpx.post(server.url + "/v1/audio/speech", json={}).json()["error"]["message"]
        assert error.startswith("Invalid URL (POST /v1/audio/speech). ") and "text only" in error
        error = httpx.post(server.url + "/v1/completions", json={"model": "gpt-4", "prompt": "a"}).json()["error"]
        assert error["message"] == "The model `gpt-4` does not exist. This server has `right`."


def test_a_cache_of_windows_is_not_counted_in_tokens(tmp_path):
    write_folder(tmp_path / "m", "starcoder2")
    with serving(tmp_path / "m") as server:
        said = "".join(server.log)
    assert "sequences of any length" in said and "2147483" not in said
