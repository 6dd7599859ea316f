"""Fig. 13: requests in a batch, OPT-13B, ShareGPT at 2 req/s and Alpaca at 30 req/s."""
from common import OPT_13B, SCALE, SYSTEMS, VARIANT, Claim, bars, chosen, simulate, spec, svg, write_csv

NAMES = ["Orca (Max)", "Orca (Pow2)", "Orca (Oracle)", "vLLM", "Pagoda"]
PAPER = {"sharegpt": [7.00, 9.81, 13.62, 30.42], "alpaca": [7.00, 43.24, 72.75, 132.44]}
RATES = {"sharegpt": 2, "alpaca": 30}

def make():
    claims, panels, rows = [], [], []
    label = VARIANT or "roofline"
    for workload, rate in RATES.items():
        seconds = 3600 * SCALE if workload == "sharegpt" else 1200 * SCALE
        batch = [simulate(chosen(OPT_13B), SYSTEMS[name][0], spec(workload, rate, seconds))["batched_requests"]["by_step"]
                 for name in NAMES]
        rows += [[label, workload, name, value] for name, value in zip(NAMES, batch)]
        panels.append(bars(f"{workload}, {rate} req/s", "batched requests", [n.replace("Orca ", "") for n in NAMES],
                           {"paper": ("#bbbbbb", PAPER[workload] + [0]), "ours": ("#1f77b4", batch)},
                           max(max(batch), *PAPER[workload]) * 1.15))
        why = ("the roofline's steps are faster than those of the paper's implementation, so the same rate needs a "
               "smaller batch (Little's law)")
        for name, value, paper in zip(NAMES, batch, PAPER[workload]):
            claims.append(Claim("13", f"{workload}, {rate} req/s: {name}", paper, value, "", why))
        for name, factor in (("Orca (Oracle)", 2.2), ("Orca (Max)", 4.3)):
            if workload == "sharegpt":
                claims.append(Claim("13", f"vLLM's batch over {name}'s", factor, batch[3] / batch[NAMES.index(name)],
                                    "x", why))
    write_csv("fig13", ["cost model", "workload", "system", "batched_requests"], rows)
    svg("fig13", panels, [("paper", "#bbbbbb"), ("ours", "#1f77b4")], columns=2)
    return claims
