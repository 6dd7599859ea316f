"""Fig. 14: parallel sampling and beam search, OPT-13B, Alpaca. Orca as the authors built it: each sequence has a region
and computes its prompt, and a beam that continues another one copies its whole region."""

from common import FOUR, SECONDS, SYSTEMS, Claim, Curve, Figure, rates_line, seconds, spec
from fig12 import panel

# The last items are the highest rates for vLLM, Oracle, Pow2 and Max in the authors' scripts.
CASES = [
    ("n = 2", "n=2", (20, 14, 12, 2.5)),
    ("n = 4", "n=4", (12, 9, 6, 1)),
    ("n = 6", "n=6", (9, 6, 4.5, 1)),
    ("beam width 2", "beam=2", (19, 11, 9, 2)),
    ("beam width 4", "beam=4", (11, 6, 4.5, 1)),
    ("beam width 6", "beam=6", (8.5, 4.5, 3, 1)),
]
NAMES = [*FOUR, "Pagoda"]
COPIES = (
    "the authors' own sweeps end at 8.5 and 4.5 req/s, 1.89x; what the authors' Orca spends beside copying (its"
    " allocator is copied at each admission) is not modelled"
)


def make(column):
    claims, panels, rows, rates, gains, worst = [], [], [], [], {}, []
    colours = {name: SYSTEMS[name][1] for name in NAMES}
    for title, extra, ends in CASES:
        curves = {}
        for name, guess in zip(NAMES, [*ends, ends[0]]):
            curve = Curve(
                column,
                "opt-13b",
                SYSTEMS[name][0],
                lambda rate: spec("alpaca", rate, seconds(column, SECONDS / 2), extra),
            )
            curves[name] = (curve.at_limits(guess), curve)
        panels.append(panel(title, curves, colours))
        at = {name: r for name, (r, _) in curves.items()}
        rows += [[title, name, *r, at["vLLM"][0] / r[0]] for name, r in at.items()]
        rates.append(rates_line(f"14 {title}", at, dict(zip(FOUR, ends))))
        gains[title] = at["vLLM"][0] / at["Orca (Oracle)"][0]
        worst.append(at["Pagoda"][0] / at["vLLM"][0])
    ends = {title: e[0] / e[1] for title, _, e in CASES}
    claims.append(
        Claim(
            "14",
            "vLLM over Orca (Oracle), by the ends of the sweeps",
            [(t, ends[t], gains[t]) for t in ("n = 2", "n = 4", "n = 6")],
            "x",
            real=(("n = 6", "parallel, n = 6: vLLM over Orca (Oracle), more than single's 1.3"),),
        )
    )
    claims.append(
        Claim(
            "14",
            "vLLM over Orca (Oracle), by the ends of the sweeps, beams",
            [(t, ends[t], gains[t]) for t in ("beam width 2", "beam width 4")],
            "x",
            COPIES,
        )
    )
    claims.append(
        Claim(
            "14",
            "beam width 6: vLLM over Orca (Oracle)",
            [("", 2.3, gains["beam width 6"])],
            "x",
            COPIES,
            real=("beam width 6: vLLM over Orca (Oracle)",),
        )
    )
    claims.append(Claim("14", "Pagoda's defaults over vLLM, worst of six", [("", (0.98, 1e9), min(worst))], "x"))
    return Figure(
        claims,
        ["case", "system", "sustained_at_0.5", "sustained_at_1", "vllm_over_it"],
        rows,
        panels,
        [(name, SYSTEMS[name][1]) for name in NAMES],
        3,
        rates,
    )
