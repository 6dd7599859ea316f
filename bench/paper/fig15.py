"""Fig. 15: blocks saved by sharing, of the blocks without sharing, OPT-13B."""
from common import OPT_13B, SCALE, SYSTEMS, Claim, bars, simulate, spec, svg, write_csv

SIZES = (2, 4, 6)
# (case, workload): the paper's range over the sizes, smallest to largest
PAPER = {("parallel", "alpaca"): (6.1, 9.8), ("beam", "alpaca"): (37.6, 55.2),
         ("parallel", "sharegpt"): (16.2, 30.5), ("beam", "sharegpt"): (44.3, 66.3)}
WHY = {"parallel": "",
       "beam": "which beams survive depends on the model's probabilities, which the simulator makes up"}


def make():
    claims, panels, rows = [], [], []
    for (case, workload), paper in PAPER.items():
        saved = {}
        for system in ("vLLM", "Pagoda"):
            saved[system] = []
            for size in SIZES:
                rate = (8 if workload == "alpaca" else 0.8) / size
                key = "n" if case == "parallel" else "beam"
                result = simulate(OPT_13B, SYSTEMS[system][0], spec(workload, rate, 3600 * SCALE, f"{key}={size}"))
                saved[system].append(100 * result["kv"]["saved_by_sharing"])
                rows.append([case, workload, size, system, saved[system][-1]])
        panels.append(bars(f"{case}, {workload}", "memory saving (%)", [str(s) for s in SIZES],
                           {name: (SYSTEMS[name][1], values) for name, values in saved.items()}, 80))
        for value, size, wanted in ((saved["vLLM"][0], SIZES[0], paper[0]), (saved["vLLM"][-1], SIZES[-1], paper[1])):
            claims.append(Claim("15", f"{case}, {workload}, {size} sequences: blocks saved", wanted, value, " %",
                                WHY[case] or "the share of the prompt in a sequence depends on the lengths' spread"))
    write_csv("fig15", ["case", "workload", "sequences", "system", "saved_percent"], rows)
    svg("fig15", panels, [(name, SYSTEMS[name][1]) for name in ("vLLM", "Pagoda")], columns=2)
    return claims
