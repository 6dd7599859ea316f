"""/sleep, /wake_up, /is_sleeping, /reset_prefix_cache and /tokenizer_info, as vLLM has them, with a real model."""

import concurrent.futures
import json
import pathlib
import re
import subprocess
import time

import httpx
import pytest
from conftest import Server, binary, default_model, serving, small_model

PROMPT = (
    "The capital of France is Paris, the capital of Spain is Madrid, the capital of Italy is Rome, and the capital of"
    " Japan is"
)


def resident(pid):
    """Returns the resident bytes of the process and its ranks: mapped files and private memory."""
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return sum(
        int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{p}/status").read_text())[1]) << 10
        for p in [pid, *children]
    )


def answer(http, **more):
    done = http.post(
        "/v1/completions", json={"prompt": PROMPT, "max_tokens": 12, "temperature": 0, "logprobs": 1, **more}
    )
    assert done.status_code == 200, done.text
    body = done.json()
    return (
        body["choices"][0]["text"],
        body["choices"][0]["logprobs"],
        body["usage"]["prompt_tokens_details"]["cached_tokens"],
    )


@pytest.mark.parametrize(
    "flags",
    [(), ("--no-weight-cache",), ("--tensor-parallel-size", "2"), ("--kv-manager", "virtual")],
    ids=["mapped", "packed", "two ranks", "virtual"],
)
def test_weights_go_and_come_back_the_same(flags):
    with (
        serving(default_model(), "--max-model-len", "2048", *flags) as server,
        httpx.Client(base_url=server.url, timeout=120) as http,
    ):
        before = answer(http)
        full = resident(server.process.pid)
        assert http.post("/sleep?level=1").status_code == 200
        assert http.get("/is_sleeping").json() == {"is_sleeping": True}
        assert (
            server.metrics()[
                'vllm:engine_sleep_state{model_name="SmolLM2-135M-Instruct.Q4_1",engine="0",sleep_state="weights_offloaded"}'
            ]
            == 1
        )
        assert http.get("/health").status_code == 200
        asleep = resident(server.process.pid)
        weights = 80 << 20  # the file has about 90 MB
        assert full - asleep > weights, (full, asleep)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            waiting = pool.submit(answer, http)
            assert server_waits(server), "it is accepted, and waits"
            assert http.post("/wake_up").status_code == 200
            after = waiting.result(60)
        assert after[:2] == before[:2] and after[2] == 0
        assert http.get("/is_sleeping").json() == {"is_sleeping": False}
        again = answer(http)
        assert again[0] == before[0] and again[2] > 0


def server_waits(server, count=1, timeout_s=30):
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if server.metric("num_requests_waiting") == count:
            return True
        time.sleep(0.05)
    return False


def test_a_stream_that_is_aborted_ends_with_an_error_and_a_kept_one_goes_on():
    with (
        serving(default_model(), "--max-model-len", "2048") as server,
        httpx.Client(base_url=server.url, timeout=120) as http,
    ):
        body = {"prompt": PROMPT, "max_tokens": 60, "temperature": 0, "ignore_eos": True, "stream": True}
        whole = stream(http, body)
        assert len(whole) > 40 and whole[-1] == "[DONE]"  # a token with half a character has no event

        def asleep_after(mode):
            lines = []
            with http.stream("POST", "/v1/completions", json=body) as answer_:
                for line in answer_.iter_lines():
                    if line.startswith("data: "):
                        lines.append(line.removeprefix("data: "))
                    if len(lines) == 3:
                        assert httpx.post(f"{server.url}/sleep?mode={mode}", timeout=60).status_code == 200
                        if mode == "keep":
                            assert httpx.post(f"{server.url}/wake_up", timeout=60).status_code == 200
            return lines

        broken = asleep_after("abort")
        assert len(broken) < len(whole) and "put to sleep" in json.loads(broken[-2])["error"]["message"]
        assert http.post("/wake_up").status_code == 200
        kept = asleep_after("keep")
        texts = [[json.loads(line)["choices"][0]["text"] for line in lines[:-1]] for lines in (whole, kept)]
        assert kept[-1] == "[DONE]" and texts[0] == texts[1]


def stream(http, body):
    with http.stream("POST", "/v1/completions", json=body) as answer_:
        return [line.removeprefix("data: ") for line in answer_.iter_lines() if line.startswith("data: ")]


def test_another_file_under_the_same_name_is_not_loaded(tmp_path):
    copy = tmp_path / "small.gguf"
    copy.write_bytes(small_model().read_bytes())
    with serving(copy) as server, httpx.Client(base_url=server.url, timeout=60) as http:
        assert http.post("/sleep").status_code == 200
        content = bytearray(copy.read_bytes())
        content[-1] ^= 1
        copy.unlink()
        copy.write_bytes(content)
        refused = http.post("/wake_up")
        assert refused.status_code == 503 and "has changed" in refused.json()["error"]["message"]
        assert http.get("/is_sleeping").json() == {"is_sleeping": True}


def test_a_reset_cache_is_empty_and_replays_the_same(tmp_path):
    log = tmp_path / "run.log"
    server = Server(small_model(), "--record", str(log))
    with httpx.Client(base_url=server.url, timeout=60) as http:
        body = {"prompt": [5] * 40, "max_tokens": 4, "temperature": 0}

        def cached():
            return http.post("/v1/completions", json=body).json()["usage"]["prompt_tokens_details"]["cached_tokens"]

        assert cached() == 0 and cached() > 0
        assert http.post("/reset_prefix_cache").status_code == 200
        assert cached() == 0 and cached() > 0
        assert http.post("/sleep?level=1").status_code == 200 and http.post("/wake_up").status_code == 200
        assert cached() == 0
    assert server.stop() == 0
    done = subprocess.run([binary(), "simulate", "--replay", log], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_tokenizer_info(server, http):
    info = http.get("/tokenizer_info").json()
    assert info["tokenizer_class"] == "GPT2TokenizerFast" and info["eos_token"] == "<|im_end|>"
    assert "im_start" in info["chat_template"]
