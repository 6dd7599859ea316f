"""Command lines of vLLM and llama-server also start Pagoda, and supported flags have their effect."""

import subprocess

import httpx
from conftest import Server, binary, default_model, serving, small_model


def test_a_command_line_of_vllm():
    with serving(
        small_model(),
        "--trust-remote-code",
        "--gpu-memory-utilization",
        "0.9",
        "--enable-expert-parallel",
        "-O3",
        "--limit-mm-per-prompt.image",
        "0",
        "--served-model-name",
        "a",
        "b",
        "--api-key",
        "k1",
        "k2",
        "--root-path",
        "/m",
        "--max-logprobs",
        "30",
        "--generation-config",
        "vllm",
        "--override-generation-config",
        '{"max_new_tokens": 3}',
    ) as server:
        http = httpx.Client(base_url=server.url, headers={"Authorization": "Bearer k2"})
        assert [one["id"] for one in http.get("/m/v1/models").json()["data"]] == ["a", "b"]
        assert httpx.get(server.url + "/m/v1/models").status_code == 401
        assert http.get("/m/openapi.json").json()["servers"] == [{"url": "/m"}]
        body = {"model": "b", "prompt": "once", "logprobs": 30, "ignore_eos": True}
        answer = http.post("/v1/completions", json=body).json()
        assert answer["usage"]["completion_tokens"] == 3
        assert http.post("/v1/completions", json=body | {"logprobs": 31}).status_code == 400


def test_a_command_line_of_llama_server():
    with serving(
        "--jinja",
        "-m",
        small_model(),
        "-c",
        "512",
        "-np",
        "2",
        "-t",
        "1",
        "--alias",
        "small",
        "-ngl",
        "99",
        "-fa",
        "on",
        "--mlock",
        "--no-webui",
        "--metrics",
        "--slots",
        "-n",
        "4",
        "--temp",
        "0",
    ) as server:
        (model,) = httpx.get(server.url + "/v1/models").json()["data"]
        assert (model["id"], model["max_model_len"]) == ("small", 512)
        assert httpx.get(server.url + "/").status_code == 405  # clients of TGI use POST on this path
        said = [
            httpx.post(
                server.url + "/v1/completions",
                json={"model": "small", "prompt": "once", "ignore_eos": True, "seed": seed},
            ).json()
            for seed in (1, 2)
        ]
        assert [one["usage"]["completion_tokens"] for one in said] == [4, 4]
        assert said[0]["choices"][0]["text"] == said[1]["choices"][0]["text"], "temperature 0"


def test_what_has_no_effect_is_said_once_and_a_model_behind_names_is_found():
    server = Server("--enforce-eager", "--no-mmap", "--served-model-name", "n", small_model())
    try:
        assert httpx.get(server.url + "/v1/models").json()["data"][0]["id"] == "n"
        said = [line for line in server.log if "no effect here" in line]
        assert len(said) == 1 and "--no-mmap, --enforce-eager" in said[0]
    finally:
        server.stop()


def test_the_first_answer_of_the_readme_is_right():
    for seed in ("0", "1", "2"):
        done = subprocess.run(
            [binary(), "chat", default_model(), "--seed", seed, "--quick", "What is the capital of Japan?"],
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        assert "Tokyo" in done.stdout
