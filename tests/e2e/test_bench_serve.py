"""`pagoda bench serve` against a real server: the JSON has vLLM's fields, and they are consistent."""

import json
import subprocess

import pytest
import vector_models
from conftest import binary, serving

VLLM_FIELDS = {
    "date",
    "endpoint_type",
    "backend",
    "label",
    "model_id",
    "tokenizer_id",
    "num_prompts",
    "request_rate",
    "burstiness",
    "max_concurrency",
    "duration",
    "completed",
    "failed",
    "total_input_tokens",
    "total_output_tokens",
    "request_throughput",
    "request_goodput",
    "output_throughput",
    "total_token_throughput",
    "max_output_tokens_per_s",
    "max_concurrent_requests",
} | {f"{statistic}_{metric}_ms" for statistic in ("mean", "median", "std", "p99") for metric in ("ttft", "tpot", "itl")}
DETAILS = {"input_lens", "output_lens", "ttfts", "itls", "generated_texts", "errors"}


def bench(server, tmp_path, *flags, code=0):
    done = subprocess.run(
        [
            binary(),
            "bench",
            "serve",
            "--base-url",
            server.url,
            "--disable-tqdm",
            "--save-result",
            "--result-dir",
            str(tmp_path),
            "--result-filename",
            "r.json",
            *flags,
        ],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == code, done.stderr
    return done, json.loads((tmp_path / "r.json").read_text())


def test_random_prompts(small_server, tmp_path):
    done, result = bench(
        small_server,
        tmp_path,
        "--num-prompts",
        "12",
        "--random-input-len",
        "20",
        "--random-output-len",
        "8",
        "--max-concurrency",
        "4",
        "--save-detailed",
        "--goodput",
        "ttft:60000",
        "e2el:0",
        "--metadata",
        "run=e2e",
        "--percentile-metrics",
        "ttft,tpot,itl,e2el",
        "--metric-percentiles",
        "50,90,99",
    )
    assert set(result) >= VLLM_FIELDS | DETAILS
    assert result["model_id"] == "small" and result["run"] == "e2e"
    assert (result["completed"], result["failed"], result["num_prompts"]) == (12, 0, 12)
    assert result["total_input_tokens"] == 12 * 20
    assert result["total_output_tokens"] == 12 * 8
    assert result["max_concurrency"] == 4 and result["request_rate"] == "inf"
    assert result["output_lens"] == [8] * 12 and result["errors"] == [""] * 12
    assert all(len(gaps) <= 7 for gaps in result["itls"])
    assert result["request_goodput"] == 0  # no request takes zero time (tokens may: one read can return all)
    assert result["output_throughput"] == pytest.approx(96 / result["duration"])
    for metric in ("ttft", "tpot", "itl", "e2el"):
        assert result[f"p50_{metric}_ms"] == result[f"median_{metric}_ms"]
        assert 0 <= result[f"p50_{metric}_ms"] <= result[f"p99_{metric}_ms"] <= result[f"max_{metric}_ms"]
    assert result["mean_ttft_ms"] == pytest.approx(sum(result["ttfts"]) / 12 * 1000)
    assert result["mean_normalized_latency_ms"] == pytest.approx(result["mean_e2el_ms"] / 8)
    lines = done.stdout.splitlines()
    table = lines[lines.index("=" * 12 + " Serving Benchmark Result " + "=" * 12) :]
    assert table[1].split() == ["Successful", "requests:", "12"]
    assert table[-1] == "=" * 50
    for label in ("Benchmark duration (s):", "Mean TTFT (ms):", "Median TPOT (ms):", "P99 ITL (ms):", "P90 E2EL (ms):"):
        assert any(line.startswith(label) for line in table), label


def test_open_loop_of_a_workload(small_server, tmp_path):
    _, result = bench(small_server, tmp_path, "--workload", "alpaca:requests=10,rate=50,seed=3,max_len=60")
    assert result["completed"] == 10 and result["request_rate"] == 50
    assert not DETAILS & set(result)


def test_burstiness_goes_with_a_workload(small_server, tmp_path):
    spec = "alpaca:requests=4,rate=50,seed=3,max_len=60"
    _, result = bench(small_server, tmp_path, "--workload", spec, "--burstiness", "0.5")
    assert (result["burstiness"], result["request_rate"]) == (0.5, 50)
    _, result = bench(small_server, tmp_path, "--workload", spec + ",burstiness=2")
    assert result["burstiness"] == 2


def test_a_rate_that_ramps_up(small_server, tmp_path):
    _, result = bench(
        small_server,
        tmp_path,
        "--num-prompts",
        "20",
        "--input-len",
        "5",
        "--output-len",
        "2",
        "--ramp-up-strategy",
        "linear",
        "--ramp-up-start-rps",
        "10",
        "--ramp-up-end-rps",
        "100",
        "--burstiness",
        "inf",
        "--trust-remote-code",
        "--no-oversample",
    )
    assert (result["ramp_up_strategy"], result["ramp_up_start_rps"], result["ramp_up_end_rps"]) == ("linear", 10, 100)
    assert result["completed"] == 20 and result["request_rate"] == "inf"
    assert result["duration"] > sum(1 / (10 + 90 * i / 20) for i in range(20))


def test_shared_prefixes_and_request_ids(small_server, tmp_path):
    hits = small_server.metric("prefix_cache_hits_total")
    _, result = bench(
        small_server,
        tmp_path,
        "--dataset-name",
        "prefix_repetition",
        "--num-prompts",
        "8",
        "--prefix-repetition-prefix-len",
        "64",
        "--prefix-repetition-suffix-len",
        "5",
        "--prefix-repetition-num-prefixes",
        "1",
        "--prefix-repetition-output-len",
        "2",
        "--max-concurrency",
        "1",
        "--request-id-prefix",
        "bench-",
    )
    assert (result["completed"], result["total_input_tokens"]) == (8, 8 * 69)
    assert small_server.metric("prefix_cache_hits_total") - hits >= 7 * 48


def test_chat(server, tmp_path):
    _, chat = bench(
        server,
        tmp_path,
        "--backend",
        "openai-chat",
        "--num-prompts",
        "3",
        "--input-len",
        "10",
        "--output-len",
        "5",
        "--temperature",
        "0.5",
        "--request-rate",
        "20",
    )
    assert (chat["completed"], chat["total_output_tokens"]) == (3, 15)


@pytest.mark.parametrize("backend", ["openai", "openai-chat", "responses", "anthropic", "ollama", "llamacpp"])
def test_every_protocol(server, tmp_path, backend):
    generated = server.metric("generation_tokens_total")
    _, result = bench(
        server,
        tmp_path,
        "--backend",
        backend,
        "--num-prompts",
        "4",
        "--input-len",
        "12",
        "--output-len",
        "6",
        "--max-concurrency",
        "2",
        "--save-detailed",
    )
    assert (result["backend"], result["completed"], result["failed"]) == (backend, 4, 0), result["errors"]
    assert result["output_lens"] == [6] * 4 and result["total_input_tokens"] >= 4 * 12
    assert result["total_output_tokens"] == 24
    assert (
        24 < server.metric("generation_tokens_total") - generated <= 26
    )  # one or two tokens of the request sent before the load
    assert all(ttft > 0 for ttft in result["ttfts"]) and result["mean_tpot_ms"] > 0


def test_embeddings(tmp_path):
    folder, _ = vector_models.write("bert", tmp_path / "m", pooling="mean")
    with serving(folder, "--served-model-name", "bert") as server:
        done, result = bench(
            server,
            tmp_path,
            "--backend",
            "openai-embeddings",
            "--num-prompts",
            "9",
            "--input-len",
            "6",
            "--dataset-name",
            "random",
            "--max-concurrency",
            "3",
        )
    assert (result["completed"], result["failed"], result["total_output_tokens"]) == (9, 0, 0), done.stderr
    assert result["total_input_tokens"] >= 9 * 6 and result["request_throughput"] > 0
    assert result["mean_e2el_ms"] == result["mean_ttft_ms"] > 0


def test_a_text_data_set(small_server, tmp_path):
    trace = tmp_path / "trace.jsonl"
    trace.write_text(
        "".join(
            json.dumps(
                {
                    "prompt_tokens": 9,
                    "output_tokens": 4 + i,
                    "arrival_s": i / 100,
                    "prompt": f"Once upon a time there were {i}",
                }
            )
            + "\n"
            for i in range(5)
        )
    )
    _, result = bench(small_server, tmp_path, "--dataset-name", "trace", "--dataset-path", str(trace))
    assert result["completed"] == 5
    assert result["total_output_tokens"] == sum(range(4, 9))


def test_a_trace_without_times_comes_all_at_once(small_server, tmp_path):
    trace = tmp_path / "trace.jsonl"
    trace.write_text('{"prompt_tokens":9,"output_tokens":4,"arrival_s":null}\n' * 3)
    _, result = bench(small_server, tmp_path, "--dataset-name", "trace", "--dataset-path", str(trace))
    assert (result["completed"], result["total_input_tokens"], result["request_rate"]) == (3, 27, "inf")


def test_failures_are_counted_with_their_reason(small_server, tmp_path):
    done, result = bench(
        small_server, tmp_path, "--num-prompts", "2", "--random-input-len", "100000", "--save-detailed", code=2
    )
    assert (result["completed"], result["failed"]) == (0, 2)
    assert all(error.startswith("HTTP 400: ") for error in result["errors"])
    assert "2 failed: HTTP 400" in done.stderr


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--goodput", "speed:3"], "--goodput"),
        (["--workload", "sharegpt:speed=3"], "unknown key 'speed'"),
        (["--request-rate", "0"], "--request-rate"),
        (["--dataset-name", "sharegpt"], "needs --dataset-path"),
        (["--ramp-up-strategy", "linear"], "--ramp-up-start-rps"),
        (["--ramp-up-start-rps", "2"], "--ramp-up-strategy"),
        (["--lora-modules", "a"], "--lora-modules"),
        (["--dataset-name", "sonnet"], "'sonnet' is not one of"),
        (["--plot-timeline"], "--plot-timeline"),
        (["--base-url", "https://localhost"], "is https, which is not supported"),
    ],
)
def test_wrong_flags_are_told_before_any_load(flags, message):
    done = subprocess.run(
        [binary(), "bench", "serve", "--port", "1", *flags],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert message in done.stderr and done.stderr.count("\n") == 1
