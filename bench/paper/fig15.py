"""Fig. 15: blocks saved by sharing, relative to blocks without sharing, OPT-13B; Alpaca at the authors' 20 req/s."""

from common import SYSTEMS, Claim, Figure, bars, cost, simulate, spec

SIZES = (2, 4, 6)
# (case, workload): the paper's range over all sizes, from smallest to largest
PAPER = {
    ("parallel", "alpaca"): (6.1, 9.8),
    ("beam", "alpaca"): (37.6, 55.2),
    ("parallel", "sharegpt"): (16.2, 30.5),
    ("beam", "sharegpt"): (44.3, 66.3),
}
BEAMS = "which beams survive depends on the model's probabilities, which the simulator makes up"
BLOCK = "Alpaca's prompts are about one block long, and those of the sample at hand 2 % shorter than the paper's"


def load(workload, size):
    """Returns requests per second and seconds; some hundreds of requests are needed for the tail of the lengths."""
    return (20, 200) if workload == "alpaca" else (2 / size, 1800)


def make(column):
    claims, panels, rows = [], [], []
    for (case, workload), paper in PAPER.items():
        key = "n" if case == "parallel" else "beam"
        saved = {}
        for system in ("vLLM", "Pagoda"):
            saved[system] = [
                100
                * simulate(
                    cost(column, "opt-13b"), SYSTEMS[system][0], spec(workload, *load(workload, size), f"{key}={size}")
                )["kv"]["saved_by_sharing"]
                for size in SIZES
            ]
            rows += [[case, workload, size, system, value] for size, value in zip(SIZES, saved[system])]
        panels.append(
            bars(
                f"{case}, {workload}",
                "memory saving (%)",
                [str(s) for s in SIZES],
                {name: (SYSTEMS[name][1], values) for name, values in saved.items()},
                80,
            )
        )
        claims.append(
            Claim(
                "15",
                f"{case}, {workload}, 2 and 6 sequences: blocks saved",
                [("2", paper[0], saved["vLLM"][0]), ("6", paper[1], saved["vLLM"][-1])],
                " %",
                BEAMS if case == "beam" else BLOCK,
                real=tuple(f"{case}, {workload}, {size} sequences: blocks saved" for size in (2, 6)),
            )
        )
    return Figure(
        claims,
        ["case", "workload", "sequences", "system", "saved_percent"],
        rows,
        panels,
        [(name, SYSTEMS[name][1]) for name in ("vLLM", "Pagoda")],
        2,
    )
