"""Fig. 14: parallel sampling and beam search, OPT-13B, Alpaca. The Orcas run a beam of width k as k sequences with
a region each: what beams cost them without sharing (the copies between beams are left out, in their favour)."""
from common import OPT_13B, SCALE, SYSTEMS, Claim, Curve, chosen, spec, svg, write_csv
from fig12 import panel

CASES = [(f"parallel, n = {n}", f"n={n}", f"n={n}", 14 / n) for n in (2, 4, 6)]
CASES += [(f"beam width {n}", f"beam={n}", f"n={n}", 14 / n) for n in (2, 4, 6)]
NAMES = ["Orca (Max)", "Orca (Pow2)", "Orca (Oracle)", "vLLM", "Pagoda"]


def make():
    claims, panels, rows = [], [], []
    seconds = max(300, 3600 * SCALE / 3)
    for title, ours, theirs, guess in CASES:
        results = {}
        for name in NAMES:
            extra = theirs if name.startswith("Orca") else ours
            curve = Curve(chosen(OPT_13B), SYSTEMS[name][0], lambda rate: spec("alpaca", rate, seconds, extra))
            results[name] = (curve.sustained(guess), curve)
        panels.append(panel(title, results))
        rate = {name: r for name, (r, _) in results.items()}
        rows += [[title, name, r, rate["vLLM"] / r] for name, r in rate.items()]
        if title == "beam width 6":
            claims.append(Claim("14", "beam width 6: vLLM over Orca (Oracle)", 2.3, rate["vLLM"] / rate["Orca (Oracle)"],
                                "x", "shared blocks are stored once but read for every beam: the roofline's memory bandwidth ends before its memory"))
        if title == "parallel, n = 6":
            claims.append(Claim("14", "parallel, n = 6: vLLM over Orca (Oracle), more than single's 1.3", (1.3, 2.3),
                                rate["vLLM"] / rate["Orca (Oracle)"], "x"))
        claims.append(Claim("14", f"{title}: Pagoda's defaults over vLLM, not below 1 by more than the search's 2 %", (0.98, 1e9),
                            rate["Pagoda"] / rate["vLLM"], "x"))
    write_csv("fig14", ["case", "system", "sustained_rate", "vllm_over_it"], rows)
    svg("fig14", panels, [(name, SYSTEMS[name][1]) for name in NAMES])
    return claims
