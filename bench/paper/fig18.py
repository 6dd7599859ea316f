"""Fig. 18b: end-to-end latency by block size, OPT-13B. (18a is a kernel benchmark: bench/kernels.)"""

from common import SYSTEMS, Claim, Figure, cost, latency, lines, simulate, spec

SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
RATES = {"sharegpt": 1.9, "alpaca": 30.1}  # the authors' script has only Alpaca


def make(column):
    claims, panels, rows, of, worst = [], [], [], {}, []
    for workload, rate in RATES.items():
        series = {}
        for system in ("vLLM", "Pagoda"):
            values = [
                latency(
                    simulate(
                        cost(column, "opt-13b"),
                        [*SYSTEMS[system][0], "--block-size", str(size)],
                        spec(workload, rate, 600),
                    )
                )
                for size in SIZES
            ]
            series[system] = (SYSTEMS[system][1], list(zip(SIZES, values)))
            rows += [[workload, system, size, value] for size, value in zip(SIZES, values)]
        of[workload] = dict(series["vLLM"][1])
        worst += [theirs / ours for (_, theirs), (_, ours) in zip(series["vLLM"][1], series["Pagoda"][1])]
        panels.append(
            lines(
                f"{workload}, {rate:g} req/s",
                "block size",
                "normalized latency (s/token)",
                series,
                min(
                    max(y for _, points in series.values() for _, y in points) * 1.15,
                    3 if workload == "sharegpt" else 1,
                ),
                log_x=True,
            )
        )
    many = (1.1, 1e9)
    a, s = of["alpaca"], of["sharegpt"]
    claims = [
        Claim(
            "18b",
            "Alpaca: latency at 32 over 16 (both work well)",
            [("", (0.85, 1.15), a[32] / a[16])],
            "x",
            tolerance=0.15,
        ),
        Claim(
            "18b",
            "Alpaca: large blocks are worse: 256 over 16",
            [("", many, a[256] / a[16])],
            "x",
            real=("Alpaca: large blocks are worse: latency at 256 over 16, above 1",),
        ),
        Claim(
            "18b",
            "small blocks are worse: 1 over 16, Alpaca, ShareGPT",
            [("Alpaca", many, a[1] / a[16]), ("ShareGPT", many, s[1] / s[16])],
            "x",
            real=("alpaca: small blocks are worse: latency at 1 over 16, above 1",),
        ),
        Claim(
            "18b",
            "ShareGPT: 16 to 128 work best: 128 over 16",
            [("", (0, 1.0), s[128] / s[16])],
            "x",
            "at this rate the last, half empty block of each sequence is what other sequences lack",
        ),
        Claim(
            "18b", "any block size: vLLM's latency over Pagoda's defaults', worst", [("", (0.98, 1e9), min(worst))], "x"
        ),
    ]
    return Figure(
        claims,
        ["workload", "system", "block_size", "normalized_latency"],
        rows,
        panels,
        [(name, SYSTEMS[name][1]) for name in ("vLLM", "Pagoda")],
        2,
    )
