"""lm-eval (`lm_eval`), its command as a user types it. Log-likelihoods come from prompts that are echoed, tokens from the server's
own /tokenize: nothing of the model is on the client's side. What it counts is counted again by hand."""
import json
import os
import pathlib
import shutil
import subprocess
import sys

import httpx
import pytest

TASKS = pathlib.Path(__file__).parent / "tasks"
CASES = [json.loads(line) for line in (TASKS / "endings.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tasks")
    for path in TASKS.iterdir():
        shutil.copy(path, folder)
    for path in folder.glob("*.yaml"):
        path.write_text(path.read_text().replace("endings.jsonl", str(folder / "endings.jsonl")))
    return folder


def evaluate(tasks, task, model, path, server, tmp_path, *more):
    command = [sys.executable, "-m", "lm_eval", "--model", model, "--include_path", str(tasks), "--tasks", task, "--output_path", str(tmp_path / "out"),
               "--log_samples", "--model_args", f"model=smol,base_url={server.url}{path},num_concurrent=2,max_retries=1,max_length=2048", *more]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, cwd=tmp_path,
                          env={**os.environ, "HF_DATASETS_OFFLINE": "1", "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hf")})
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    [results] = (tmp_path / "out").rglob("results_*.json")
    [samples] = (tmp_path / "out").rglob("samples_*.jsonl")
    return json.loads(results.read_text())["results"][task], [json.loads(line) for line in samples.read_text().splitlines()]


def test_log_likelihoods(tasks, server, tmp_path):
    result, samples = evaluate(tasks, "pagoda_endings", "local-completions", "/v1/completions", server, tmp_path)
    assert result["acc,none"] > 0.8, result
    with httpx.Client(base_url=server.url, timeout=120) as http:
        for sample in samples:
            case = CASES[sample["doc_id"]]
            for end, (logprob, _) in zip(case["ends"], sample["filtered_resps"]):
                answer = http.post("/v1/completions", json={"prompt": case["start"] + end, "max_tokens": 0, "echo": True, "logprobs": 1}).json()
                logprobs = answer["choices"][0]["logprobs"]
                of_end = [value for value, at in zip(logprobs["token_logprobs"], logprobs["text_offset"]) if at >= len(case["start"])]
                assert abs(float(logprob) - sum(of_end)) < 1e-3, (case, end)


@pytest.mark.parametrize("model, path, more", [("local-completions", "/v1/completions", []),
                                               ("local-chat-completions", "/v1/chat/completions", ["--apply_chat_template"])])
def test_generation(tasks, server, tmp_path, model, path, more):
    _, samples = evaluate(tasks, "pagoda_colours", model, path, server, tmp_path, *more)
    assert len(samples) == len(CASES) and all(sample["filtered_resps"][0].strip() for sample in samples)
