"""Fig. 18b: end-to-end latency by block size, OPT-13B. (18a is a kernel benchmark: bench/kernels.)"""
from common import OPT_13B, SCALE, SYSTEMS, Claim, latency, lines, simulate, spec, svg, write_csv

SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
RATES = {"sharegpt": 3.2, "alpaca": 75}  # near what block size 16 sustains


def make():
    claims, panels, rows = [], [], []
    for workload, rate in RATES.items():
        series = {}
        for system in ("vLLM", "Pagoda"):
            seconds = (3600 if workload == "sharegpt" else 1200) * SCALE
            values = [latency(simulate(OPT_13B, [*SYSTEMS[system][0], "--block-size", str(size)],
                                       spec(workload, rate, seconds))) for size in SIZES]
            series[system] = (SYSTEMS[system][1], list(zip(SIZES, values)))
            rows += [[workload, system, size, value] for size, value in zip(SIZES, values)]
        worst = min(theirs / ours for (_, theirs), (_, ours) in zip(series["vLLM"][1], series["Pagoda"][1]))
        claims.append(Claim("18b", f"{workload}, any block size: vLLM's latency over Pagoda's defaults', not below 1 by more than 2 %",
                            (0.98, 1e9), worst, "x"))
        top = max(y for _, points in series.values() for _, y in points) * 1.15
        panels.append(lines(f"{workload}, {rate:g} req/s", "block size", "normalized latency (s/token)", series, top,
                            log_x=True))
        of = dict(series["vLLM"][1])
        if workload == "alpaca":
            claims.append(Claim("18b", "Alpaca: large blocks are worse: latency at 256 over 16, above 1", (1.1, 1e9),
                                of[256] / of[16], "x"))
        claims.append(Claim("18b", f"{workload}: small blocks are worse: latency at 1 over 16, above 1", (1.1, 1e9),
                            of[1] / of[16], "x",
                            "the cost model reads K/V at one speed whatever the block size: the kernel's lower "
                            "parallelism in small blocks is not modelled"))
    write_csv("fig18b", ["workload", "system", "block_size", "normalized_latency"], rows)
    svg("fig18b", panels, [(name, SYSTEMS[name][1]) for name in ("vLLM", "Pagoda")], columns=2)
    return claims
