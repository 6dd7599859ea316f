"""Fig. 16: a translation prefix that all prompts share, LLaMA-13B: 80 tokens (one example) and 341 (five)."""
from common import LLAMA_13B, SCALE, SYSTEMS, Claim, Curve, chosen, spec, svg, write_csv
from fig12 import panel

NAMES = ["Orca (Oracle)", "vLLM", "Pagoda"]
# WMT16 en-de sentences have 21 English words on average: about 29 tokens in and 37 out.
LENGTHS = "input=8-50,output=10-64"


def make():
    claims, panels, rows = [], [], []
    for title, prefix, paper in (("(a) one example, 80 tokens", 80, 1.67), ("(b) five examples, 341 tokens", 341, 3.58)):
        results = {}
        for name in NAMES:
            # The paper registers the prefix; the prefix cache holds the same blocks.
            flags = [f for f in SYSTEMS[name][0] if f != "--no-enable-prefix-caching"]
            curve = Curve(chosen(LLAMA_13B), flags, lambda rate: f"uniform:{LENGTHS},prefix={prefix},rate={rate:g},"
                                                         f"duration={max(300, 1200 * SCALE):g},seed=1")
            results[name] = (curve.sustained(20), curve)
        panels.append(panel(title, results))
        rate = {name: r for name, (r, _) in results.items()}
        rows += [[title, name, r, rate["vLLM"] / r] for name, r in rate.items()]
        claims.append(Claim("16", f"{title}: vLLM over Orca (Oracle)", paper, rate["vLLM"] / rate["Orca (Oracle)"], "x",
                            "without a cost of each sequence, larger batches gain more than the paper's did"))
        claims.append(Claim("16", f"{title}: Pagoda's defaults over vLLM, not below 1 by more than the search's 2 %", (0.98, 1e9),
                            rate["Pagoda"] / rate["vLLM"], "x"))
    write_csv("fig16", ["case", "system", "sustained_rate", "vllm_over_it"], rows)
    svg("fig16", panels, [(name, SYSTEMS[name][1]) for name in NAMES], columns=2)
    return claims
