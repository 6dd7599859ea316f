"""Fig. 19: recomputation versus swapping, OPT-13B: (a) for one sequence of 256 tokens, by the terms of the cost model;
(b) end to end at the authors' 2.01 req/s."""

from common import SYSTEMS, Claim, Figure, cost, latency, lines, print_cost_model, simulate, spec

SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
TOKENS = 256
RATE = 2.01
PLOTTED = 0.9  # the share of the measured recomputation time that the authors' plot_fig19_a.py draws


def micro(column):
    model = print_cost_model(cost(column, "opt-13b"))

    def swap(size):  # one way
        blocks = -(-TOKENS // size)
        return blocks * (model["swap_block_s"] + size * model["kv_bytes_per_token"] / model["swap_bytes_per_s"])

    weights = model["parameters"] * model["bytes_per_parameter"] / model["memory_bytes_per_s"]
    recompute = (
        max(weights, 2 * model["parameters"] * TOKENS / model["flops_per_s"])
        + model["step_overhead_s"]
        + model.get("request_overhead_s", 0)
        + model["sequence_overhead_s"]
    )
    return [(size, 1000 * swap(size)) for size in SIZES], [(size, 1000 * PLOTTED * recompute) for size in SIZES]


def make(column):
    one_way, recompute = micro(column)
    both_ways = [(size, 2 * t) for size, t in one_way]
    curves = {
        "swap in": ("#2ca02c", one_way),
        "swap in + out": ("#1f77b4", both_ways),
        "recompute": ("#d62728", recompute),
    }
    rows = [["a", name, size, t] for name, (_, points) in curves.items() for size, t in points]
    panels = [
        lines(f"(a) {TOKENS} tokens", "block size", "time (ms)", curves, max(t for _, t in both_ways) * 1.1, log_x=True)
    ]
    series = {}
    modes = {
        "swap": ("#1f77b4", SYSTEMS["vLLM"][0] + ["--preemption-mode", "swap", "--swap-space", "12"]),
        "recompute": ("#d62728", SYSTEMS["vLLM"][0] + ["--preemption-mode", "recompute"]),
        "Pagoda": (SYSTEMS["Pagoda"][1], SYSTEMS["Pagoda"][0]),
    }
    for mode, (colour, flags) in modes.items():
        values = [
            latency(simulate(cost(column, "opt-13b"), [*flags, "--block-size", str(size)], spec("sharegpt", RATE, 600)))
            for size in SIZES
        ]
        series[mode] = (colour, list(zip(SIZES, values)))
        rows += [["b", mode, size, value] for size, value in zip(SIZES, values)]
    panels.append(
        lines(
            f"(b) ShareGPT, {RATE:g} req/s",
            "block size",
            "normalized latency (s/token)",
            series,
            max(y for _, p in series.values() for _, y in p) * 1.15,
            log_x=True,
        )
    )
    swap, again, pagoda = (dict(series[mode][1]) for mode in ("swap", "recompute", "Pagoda"))
    sizes = (16, 32, 64)
    claims = [
        Claim(
            "19a",
            "recomputation over swapping (in and out), blocks of 256: at most",
            [("", (0, 1.2), recompute[-1][1] / both_ways[-1][1])],
            "x",
            "a bus of 25 GB/s (as measured on A100s) gives swapping twice what the authors' cloud machines seem to have"
            " given",
            real=("recomputation over swapping (in and out), blocks of 256: at most",),
        ),
        Claim(
            "19a",
            "swapping with blocks of 1 over blocks of 16: many times",
            [("", (2, 1e9), both_ways[0][1] / both_ways[4][1])],
            "x",
        ),
        Claim(
            "19b",
            "blocks of 16, 32, 64: recomputation's latency over swapping's, comparable",
            [(str(s), (0.8, 1.2), again[s] / swap[s]) for s in sizes],
            "x",
            real=tuple(f"blocks of {s}: recomputation's latency over swapping's, comparable" for s in sizes),
        ),
        Claim(
            "19b",
            "blocks of 1: swapping is worse: recomputation's over swapping's",
            [("", (0, 0.9), again[1] / swap[1])],
            "x",
        ),
        Claim(
            "19b",
            "blocks of 16, 32, 64: the better one's latency over Pagoda's defaults', worst",
            [("", (0.98, 1e9), min(min(again[s], swap[s]) / pagoda[s] for s in sizes))],
            "x",
        ),
    ]
    return Figure(
        claims,
        ["panel", "what", "block_size", "value"],
        rows,
        panels,
        [
            ("swap / swap in + out", "#1f77b4"),
            ("recompute", "#d62728"),
            ("swap in", "#2ca02c"),
            ("Pagoda", SYSTEMS["Pagoda"][1]),
        ],
        2,
    )
