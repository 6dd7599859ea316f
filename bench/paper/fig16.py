"""Fig. 16: a translation prefix that all prompts share, LLaMA-13B: 80 tokens (one example) and 341 (five)."""

from common import SECONDS, SYSTEMS, Claim, Curve, Figure, rates_line, seconds
from fig12 import panel

NAMES = ["Orca (Oracle)", "vLLM", "Pagoda"]
# WMT16 en-de sentences have 21 English words on average: about 29 tokens in and 37 out.
LENGTHS = "input=8-50,output=10-64"
CASES = [("(a) one example, 80 tokens", 80, 1.67, (30, 51)), ("(b) five examples, 341 tokens", 341, 3.58, (12, 45))]


def make(column):
    claims, panels, rows, rates, worst = [], [], [], [], []
    for title, prefix, paper, ends in CASES:
        curves = {}
        for name, guess in zip(NAMES, (*ends, ends[1])):
            # The paper registers the prefix; the prefix cache holds the same blocks.
            flags = [f for f in SYSTEMS[name][0] if f != "--no-enable-prefix-caching"]
            curve = Curve(
                column,
                "llama-13b",
                flags,
                lambda rate: (
                    f"uniform:{LENGTHS},prefix={prefix},rate={rate:g},duration={seconds(column, SECONDS / 2):g},seed=1,quantum=0.01"  # noqa: E501
                ),
            )
            curves[name] = (curve.at_limits(guess), curve)
        panels.append(panel(title, curves, {name: SYSTEMS[name][1] for name in NAMES}))
        at = {name: r for name, (r, _) in curves.items()}
        rows += [[title, name, *r, at["vLLM"][0] / r[0]] for name, r in at.items()]
        rates.append(
            [
                f"16{title[1]} {title[4:]}",
                rates_line("", {"vLLM": at["vLLM"]}, {"vLLM": ends[1]})[1],
                rates_line("", {"o": at["Orca (Oracle)"]}, {"o": ends[0]})[1],
                "",
                "",
                rates_line("", {"p": at["Pagoda"]}, {})[1],
            ]
        )
        claims.append(
            Claim(
                "16",
                f"{title}: vLLM over Orca (Oracle)",
                [("", paper, at["vLLM"][0] / at["Orca (Oracle)"][0])],
                "x",
                "the prefix is read anew for every sequence of the batch, which limits vLLM here; Orca's rate is the"
                " authors'",
                real=(f"{title}: vLLM over Orca (Oracle)",),
            )
        )
        worst.append(at["Pagoda"][0] / at["vLLM"][0])
    claims.append(Claim("16", "Pagoda's defaults over vLLM, worst of two", [("", (0.98, 1e9), min(worst))], "x"))
    return Figure(
        claims,
        ["case", "system", "sustained_at_0.5", "sustained_at_1", "vllm_over_it"],
        rows,
        panels,
        [(name, SYSTEMS[name][1]) for name in NAMES],
        2,
        rates,
    )
