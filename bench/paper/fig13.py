"""Fig. 13: requests in a batch, OPT-13B, ShareGPT at 2 req/s and Alpaca at 30 req/s."""

from common import SYSTEMS, Claim, Figure, bars, cost, simulate, spec

NAMES = ["Orca (Max)", "Orca (Pow2)", "Orca (Oracle)", "vLLM", "Pagoda"]
PAPER = {"sharegpt": [7.00, 9.81, 13.62, 30.42], "alpaca": [7.00, 43.24, 72.75, 132.44]}
RATES = {"sharegpt": 2, "alpaca": 30}
WHY = "a faster step needs a smaller batch for the same rate (Little's law)"


def make(column):
    claims, panels, rows = [], [], []
    for workload, rate in RATES.items():
        batch = [
            simulate(cost(column, "opt-13b"), SYSTEMS[name][0], spec(workload, rate, 900))["batched_requests"][
                "by_step"
            ]
            for name in NAMES
        ]
        rows += [[workload, name, value] for name, value in zip(NAMES, batch)]
        panels.append(
            bars(
                f"{workload}, {rate} req/s",
                "batched requests",
                [n.replace("Orca ", "") for n in NAMES],
                {"paper": ("#bbbbbb", PAPER[workload] + [0]), "ours": ("#1f77b4", batch)},
                max(max(batch), *PAPER[workload]) * 1.15,
            )
        )
        claims.append(
            Claim(
                "13",
                f"{workload}, {rate} req/s: requests in the batch",
                [(n.replace("Orca ", ""), paper, value) for n, paper, value in zip(NAMES, PAPER[workload], batch)],
                "",
                WHY,
                given="vLLM's bar is given: the cost model is made from it",
            )
        )
        if workload == "sharegpt":
            claims.append(
                Claim(
                    "13",
                    "vLLM's batch over Orca (Oracle)'s, Orca (Max)'s",
                    [("Oracle", 2.2, batch[3] / batch[2]), ("Max", 4.3, batch[3] / batch[0])],
                    "x",
                    WHY,
                    real=("vLLM's batch over Orca (Oracle)'s", "vLLM's batch over Orca (Max)'s"),
                )
            )
    return Figure(
        claims, ["workload", "system", "batched_requests"], rows, panels, [("paper", "#bbbbbb"), ("ours", "#1f77b4")], 2
    )
