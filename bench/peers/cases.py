"""The cases that are measured for each engine: over HTTP by `pagoda bench serve`, and by the engine's own tool. A case
gives one or more rows of the table."""

import dataclasses
import json
import subprocess
import sys
import typing

from support import servers
from support.program import binary


@dataclasses.dataclass
class Row:
    title: str
    unit: str
    best: typing.Callable  # max or min
    # The machine's limit for this model, which no engine can exceed. (probe, shape, weights) -> value
    limit: typing.Callable | None = None


@dataclasses.dataclass
class Case:
    key: str
    run: typing.Callable  # (server, options, seed) -> {row: value}
    streams: int = 64  # sequences at once, and tokens of the longest: required by servers with fixed slots
    tokens: int = 256
    tool: bool = False  # measured by the engine's own tool, not over a server

    def applies(self, server):
        if self.tool:
            return isinstance(server, (servers.Pagoda, servers.LlamaCpp))
        # The start of vLLM takes minutes and is measured only once; that of a given server cannot be measured.
        return self.key != "start" or isinstance(server, (servers.Pagoda, servers.LlamaCpp))


# ---- limits of the machine ----


def model_shape(program, file):
    facts = json.loads(subprocess.check_output([program, "inspect", "--json", file]))
    config = facts["config"]
    head = config["vocab_size"] * config["hidden_size"]
    return {
        "parameters": facts["parameters"],
        "layers": config["num_layers"],
        "attention": config["num_heads"] * config["head_size"],
        "block_parameters": facts["parameters"] - head,
    }


def flops(shape, prompt, output):
    """Returns the operations of one request: two per multiply-add; logits only for sampled tokens."""
    total = prompt + output
    return (
        2 * shape["block_parameters"] * total
        + 2 * (shape["parameters"] - shape["block_parameters"]) * output
        + 4 * shape["layers"] * shape["attention"] * total * total / 2
    )


def peak(probe, weights):
    return 1e9 * (probe["bf16_gflops"] if weights == "bf16" else probe["int8_gops"])


def output_limit(prompt, output):
    return lambda probe, shape, weights: output * peak(probe, weights) / flops(shape, prompt, output)


def decode_limit(context):
    """The limit by arithmetic, for many streams with this context."""

    def limit(probe, shape, weights):
        return peak(probe, weights) / (2 * shape["parameters"] + 4 * shape["layers"] * shape["attention"] * context)

    return limit


def prefill_limit(tokens):
    return lambda probe, shape, weights: tokens * peak(probe, weights) / flops(shape, tokens, 0)


# ---- over HTTP ----


def random_load(prompt, output, count, *more):
    return [
        "--dataset-name",
        "random",
        "--random-input-len",
        prompt,
        "--random-output-len",
        output,
        "--num-prompts",
        count,
        "--ignore-eos",
        *more,
    ]


def one_stream(server, options, seed):
    found = servers.load(server, random_load(512, 128, 3, "--max-concurrency", 1), seed)
    return {"http1.prefill": 512e3 / found["median_ttft_ms"], "http1.decode": 1e3 / found["median_tpot_ms"]}


def at_once(count):
    def run(server, options, seed):
        found = servers.load(server, random_load(128, 64, count), seed)
        return {
            f"http{count}.output": found["output_throughput"],
            f"http{count}.ttft": found["max_ttft_ms"] / 1e3,
            f"http{count}.gap": found["longest_gap_ms"],
        }

    return run


def alpaca(server, options, seed):
    if options.alpaca:
        source = [
            "--dataset-name",
            "trace",
            "--dataset-path",
            options.alpaca,
            "--num-prompts",
            200,
            "--request-rate",
            "inf",
        ]
    else:  # fixed lengths from the same distribution; the prompts are random
        source = ["--workload", "alpaca:requests=200,rate=inf,seed=1"]
    found = servers.load(server, [*source, "--ignore-eos", "--max-concurrency", 64], seed)
    return {
        "alpaca.output": found["output_throughput"],
        "alpaca.ttft": found["p99_ttft_ms"],
        "alpaca.tpot": found["median_tpot_ms"],
        "alpaca.gap": found["longest_gap_ms"],
    }


def arrivals(server, options, seed):
    """16 streams run while one 2,000-token prompt arrives per second."""
    streams = servers.start_load(server, random_load(128, 256, 16), seed)
    prompts = servers.start_load(
        server, random_load(2000, 4, 5, "--request-rate", 1, "--burstiness", "inf"), seed + 500
    )
    there, running = servers.finish_load(prompts), servers.finish_load(streams)
    return {
        "arrivals.gap": running["longest_gap_ms"],
        "arrivals.p99": running["p99_itl_ms"],
        "arrivals.ttft": there["max_ttft_ms"] / 1e3,
    }


def shared_prefix(server, options, seed):
    found = servers.load(server, random_load(16, 4, 8, "--random-prefix-len", 1000), seed)
    return {"prefix.ttft": found["max_ttft_ms"] / 1e3}


def neighbour(server, options, seed):
    # A step of llama.cpp takes seconds beside such a prompt; a shorter answer gives the same result.
    output = 8 if isinstance(server, servers.LlamaCpp) else 64
    alone = servers.load(server, random_load(128, output, 16), seed)
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        beside = servers.load(server, random_load(128, output, 16), seed + 1)
    finally:
        busy.kill()
        busy.wait()
    return {
        "neighbour.kept": 100 * beside["output_throughput"] / alone["output_throughput"],
        "neighbour.output": beside["output_throughput"],
    }


# ---- the engines' own tools ----


def run_tool(command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{command[0]}: {done.stderr[-500:]}")
    return done.stdout


def own_bench(server, batch, prompt, output, runs=1):
    """Runs `pagoda bench latency` with a warm-up in the same KV blocks, as llama.cpp's tools do."""
    return json.loads(
        run_tool(
            [
                binary(),
                "bench",
                "latency",
                server.file,
                "--threads",
                servers.THREADS,
                "--batch-size",
                batch,
                "--input-len",
                prompt,
                "--output-len",
                output,
                "--num-iters-warmup",
                1,
                "--num-iters",
                runs,
                "--no-enable-prefix-caching",
                "--max-num-batched-tokens",
                4096,  # so that all start together
                "--output-json",
                "-",
                *server.flags,
            ]
        )
    )


def tool_stream(server, options, seed):
    if isinstance(server, servers.Pagoda):
        found = own_bench(server, 1, 512, 128, runs=5)
        return {
            "tool1.prefill": found["prefill_tokens_per_s"]["median"],
            "tool1.decode": found["decode_tokens_per_s"]["median"],
            "tool1.share": 100 * found["bandwidth_share"]["median"],
        }

    def bench(*arguments):
        return json.loads(
            run_tool(
                [
                    server.programs / "llama-bench",
                    "-m",
                    server.file,
                    "-t",
                    servers.THREADS,
                    "-r",
                    1,
                    "-o",
                    "json",
                    *arguments,
                ]
            )
        )[0]["avg_ts"]

    return {"tool1.prefill": bench("-p", 512, "-n", 0), "tool1.decode": bench("-p", 0, "-n", 128, "-d", 512)}


def tool_batch(count, prompt):
    def run(server, options, seed):
        row = f"tool{count}.{prompt}"
        if isinstance(server, servers.Pagoda):
            found = own_bench(server, count, prompt, 64)
            return {row: found["decode_tokens_per_s"]["median"]}
        text = run_tool(
            [
                server.programs / "llama-batched-bench",
                "-m",
                server.file,
                "-t",
                servers.THREADS,
                "-c",
                count * (prompt + 64),
                "-npp",
                prompt,
                "-ntg",
                64,
                "-npl",
                count,
                "--output-format",
                "jsonl",
            ]
        )
        return {row: json.loads([line for line in text.splitlines() if line.startswith("{")][-1])["speed_tg"]}

    return run


CASES = {
    case.key: case
    for case in (
        Case("stream", one_stream, streams=1, tokens=640),
        Case("batch16", at_once(16), streams=16),
        Case("batch64", at_once(64)),
        Case("alpaca", alpaca, tokens=1024),
        Case("arrivals", arrivals, streams=21, tokens=2048),
        Case("prefix", shared_prefix, streams=8, tokens=1024),
        Case("neighbour", neighbour, streams=16),
        Case("start", lambda server, options, seed: {}, streams=4, tokens=2048),
        Case("tool-stream", tool_stream, tool=True),
        Case("tool-batch16", tool_batch(16, 128), tool=True),
        Case("tool-batch64", tool_batch(64, 128), tool=True),
        Case("tool-batch64-512", tool_batch(64, 512), tool=True),
    )
}

ROWS = {
    "tool1.decode": Row("decode, one stream behind 512 tokens, own tool", "tok/s", max),
    "tool1.share": Row("… weights, K and V read, of the bandwidth measured around it", "%", max),
    "tool16.128": Row("decode, 16 streams, 128 in, own tool", "tok/s", max, decode_limit(160)),
    "tool64.128": Row("decode, 64 streams, 128 in, own tool", "tok/s", max, decode_limit(160)),
    "tool64.512": Row("decode, 64 streams, 512 in, own tool", "tok/s", max, decode_limit(544)),
    "tool1.prefill": Row("prefill, 512 tokens, own tool", "tok/s", max, prefill_limit(512)),
    "http1.prefill": Row("over HTTP: one stream, 512 in: prefill", "tok/s", max, prefill_limit(512)),
    "http1.decode": Row("… its decode", "tok/s", max),
    "http16.output": Row("over HTTP: 16 at once, 128 in, 64 out: output", "tok/s", max, output_limit(128, 64)),
    "http16.ttft": Row("… last first token", "s", min),
    "http16.gap": Row("… longest gap", "ms", min),
    "http64.output": Row("over HTTP: 64 at once, 128 in, 64 out: output", "tok/s", max, output_limit(128, 64)),
    "http64.ttft": Row("… last first token", "s", min),
    "http64.gap": Row("… longest gap", "ms", min),
    "alpaca.output": Row("over HTTP: 200 Alpaca requests, 64 clients: output", "tok/s", max, output_limit(17, 55)),
    "alpaca.ttft": Row("… p99 of the first token", "ms", min),
    "alpaca.tpot": Row("… median time of a token after the first", "ms", min),
    "alpaca.gap": Row("… longest gap", "ms", min),
    "arrivals.gap": Row("16 streams while 2,000-token prompts arrive: longest gap", "ms", min),
    "arrivals.p99": Row("… p99 of the gaps", "ms", min),
    "arrivals.ttft": Row("… last first token of the prompts", "s", min),
    "prefix.ttft": Row("8 at once with one cold 1,000-token prefix: last first token", "s", min),
    "neighbour.kept": Row("16 streams beside a busy process: kept of the output", "%", max),
    "neighbour.output": Row("… output", "tok/s", max),
    "start": Row("from exec to the first token", "s", min),
}
