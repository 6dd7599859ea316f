"""Fig. 19: recomputation against swapping, OPT-13B: (a) of one sequence of 256 tokens, by the cost model's own
terms; (b) end to end."""
import json
import subprocess

from common import OPT_13B, PAGODA, SCALE, SYSTEMS, Claim, latency, lines, simulate, spec, svg, write_csv

SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
TOKENS = 256
RATE = 3.9  # over what fits: preemptions are frequent


def micro():
    model = json.loads(subprocess.run([PAGODA, "simulate", "--cost-model", OPT_13B, "--print-cost-model"],
                                      capture_output=True, text=True, check=True).stdout)
    def swap(size):  # one way
        blocks = -(-TOKENS // size)
        return blocks * (model["swap_block_s"] + size * model["kv_bytes_per_token"] / model["swap_bytes_per_s"])
    weights = model["parameters"] * model["bytes_per_parameter"] / model["memory_bytes_per_s"]
    recompute = max(weights, 2 * model["parameters"] * TOKENS / model["flops_per_s"]) + model["step_overhead_s"]
    return [(size, 1000 * swap(size)) for size in SIZES], [(size, 1000 * recompute) for size in SIZES]


def make():
    one_way, recompute = micro()
    both_ways = [(size, 2 * t) for size, t in one_way]
    curves = {"swap in": ("#2ca02c", one_way), "swap in + out": ("#1f77b4", both_ways),
              "recompute": ("#d62728", recompute)}
    rows = [["a", name, size, t] for name, (_, points) in curves.items() for size, t in points]
    panels = [lines(f"(a) {TOKENS} tokens", "block size", "time (ms)", curves,
                    max(t for _, t in both_ways) * 1.1, log_x=True)]
    series = {}
    modes = {"swap": ("#1f77b4", SYSTEMS["vLLM"][0] + ["--preemption-mode", "swap", "--swap-space", "12"]),
             "recompute": ("#d62728", SYSTEMS["vLLM"][0] + ["--preemption-mode", "recompute"]),
             "Pagoda": (SYSTEMS["Pagoda"][1], SYSTEMS["Pagoda"][0])}
    for mode, (colour, flags) in modes.items():
        values = [latency(simulate(OPT_13B, [*flags, "--block-size", str(size)],
                                   spec("sharegpt", RATE, 3600 * SCALE))) for size in SIZES]
        series[mode] = (colour, list(zip(SIZES, values)))
        rows += [["b", mode, size, value] for size, value in zip(SIZES, values)]
    panels.append(lines(f"(b) ShareGPT, {RATE:g} req/s", "block size", "normalized latency (s/token)", series,
                        max(y for _, p in series.values() for _, y in p) * 1.15, log_x=True))
    write_csv("fig19", ["panel", "what", "block_size", "value"], rows)
    svg("fig19", panels, [("swap / swap in + out", "#1f77b4"), ("recompute", "#d62728"), ("swap in", "#2ca02c"),
                          ("Pagoda", SYSTEMS["Pagoda"][1])],
        columns=2)
    swap, again = dict(series["swap"][1]), dict(series["recompute"][1])
    why = "the sheet's bus gives swapping more than the paper's cloud machines seem to"
    claims = [Claim("19a", "recomputation over swapping (in and out), blocks of 256: at most", (0, 1.2),
                    recompute[-1][1] / both_ways[-1][1], "x", why),
              Claim("19a", "swapping with blocks of 1 over blocks of 16: many times", (2, 1e9),
                    both_ways[0][1] / both_ways[4][1], "x")]
    claims += [Claim("19b", f"blocks of {size}: recomputation's latency over swapping's, comparable", (0.8, 1.2),
                     again[size] / swap[size], "x", why) for size in (16, 32, 64)]
    pagoda = dict(series["Pagoda"][1])
    claims += [Claim("19b", f"blocks of {size}: the better one's latency over Pagoda's defaults', not below 1 by more than 2 %",
                     (0.98, 1e9), min(again[size], swap[size]) / pagoda[size], "x") for size in (16, 32, 64)]
    return claims
