"""Fig. 12: normalized latency against request rate, three OPT models, ShareGPT and Alpaca."""
from common import OPT_13B, OPT_66B, OPT_175B, SCALE, SYSTEMS, VARIANT, Claim, Curve, chosen, lines, spec, svg, write_csv

PANELS = [  # title, cost model, workload, first guess of the rate, seconds of the paper's trace
    ("(a) OPT-13B, ShareGPT", OPT_13B, "sharegpt", 2, 3600),
    ("(b) OPT-66B, ShareGPT", OPT_66B, "sharegpt", 1, 3600),
    ("(c) OPT-175B, ShareGPT", OPT_175B, "sharegpt", 3, 900),
    ("(d) OPT-13B, Alpaca", OPT_13B, "alpaca", 20, 3600),
    ("(e) OPT-66B, Alpaca", OPT_66B, "alpaca", 15, 3600),
    ("(f) OPT-175B, Alpaca", OPT_175B, "alpaca", 40, 3600),
]

WHY_C = "at these batches reading K/V takes as long as reading the weights, so a larger batch gains less than its size"


def sustained(model, workload, guess, seconds, extra="", flags=()):
    """{system: (rate, curve)}; `flags` for all."""
    out = {}
    for name, (own, _) in SYSTEMS.items():
        curve = Curve(model, [*own, *flags], lambda rate: spec(workload, rate, seconds, extra))
        out[name] = (curve.sustained(guess), curve)
    return out


def panel(title, results, top=1.0):
    right = max(rate for rate, _ in results.values()) * 1.15
    for rate, curve in results.values():  # the flat part, too
        for share in (0.25, 0.5, 0.75, 0.9):
            curve.at(rate * share)
    series = {name: (SYSTEMS[name][1], [(x, y) for x, y in curve.points.items() if x <= right])
              for name, (_, curve) in results.items()}
    return lines(title, "request rate (req/s)", "normalized latency (s/token)", series, top, right)


def make():
    claims, panels, rows = [], [], []
    ratios = {"oracle": [], "max": [], "ft": []}
    for title, model, workload, guess, seconds in PANELS:
        if VARIANT and model != OPT_13B:
            continue
        model = chosen(model)
        # Short answers at high rates: a third of the time has as many requests.
        scale = SCALE if workload == "sharegpt" else SCALE / 3
        results = sustained(model, workload, guess, max(300 if seconds > 900 else 900, seconds * scale))
        panels.append(panel(title, results))
        rate = {name: r for name, (r, _) in results.items()}
        rows += [[title, name, r, rate["vLLM"] / r] for name, r in rate.items()]
        if workload == "sharegpt":
            ratios["oracle"].append(rate["vLLM"] / rate["Orca (Oracle)"])
            ratios["max"].append(rate["vLLM"] / rate["Orca (Max)"])
            ratios["ft"].append(rate["vLLM"] / rate["FasterTransformer"])
            claims.append(Claim("12" + title[1], f"{title[4:]}: vLLM over Orca (Oracle)", (1.7, 2.7),
                                ratios["oracle"][-1], "x", WHY_C))
            claims.append(Claim("12" + title[1], f"{title[4:]}: vLLM over Orca (Max)", (2.7, 8), ratios["max"][-1],
                                "x", WHY_C))
        if title.startswith("(d)"):
            claims.append(Claim("12d", f"{title[4:]}: vLLM over Orca (Oracle)", 1.3, rate["vLLM"] / rate["Orca (Oracle)"],
                                "x", "without a cost of each sequence, larger batches gain more than the paper's did"))
        if title.startswith("(f)"):
            claims.append(Claim("12f", f"{title[4:]}: vLLM over Orca (Oracle), \"less pronounced\"", (1.0, 1.3),
                                rate["vLLM"] / rate["Orca (Oracle)"], "x"))
        claims.append(Claim("12" + title[1], f"{title[4:]}: Pagoda's defaults over vLLM, not below 1 by more than the search's 2 %", (0.98, 1e9),
                            rate["Pagoda"] / rate["vLLM"], "x"))
    claims.append(Claim("12a-c", "most over FasterTransformer, ShareGPT", 22, max(ratios["ft"]), "x",
                        "our FasterTransformer's kernels are as fast as vLLM's here (its padding is computed); the paper does not say which model and which rates its 22 is from"))
    write_csv("fig12", ["panel", "system", "sustained_rate", "vllm_over_it"], rows)
    svg("fig12", panels, [(name, colour) for name, (_, colour) in SYSTEMS.items()])
    return claims
