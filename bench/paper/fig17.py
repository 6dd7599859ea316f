"""Fig. 17: a chatbot: ShareGPT conversations, the last 1,024 tokens as prompt, OPT-13B. The authors' scripts start a
new conversation with probability 0.5 for vLLM and 0.1 for Orca (run_all_chatbot_astra.py and _orca.py), so that
vLLM's prompts are shorter. Here each system runs both."""

from common import FOUR, SYSTEMS, Claim, Curve, Figure, rates_line, seconds, spec
from fig12 import panel

NAMES = [*FOUR, "Pagoda"]
WHY = "on one workload for all; the authors' scripts give vLLM p = 0.5 and Orca 0.1, and vLLM's prompts are shorter"


def make(column):
    rows, panels, rates, at = [], [], [], {}
    for share in (0.5, 0.1):
        curves = {}
        for name in NAMES:
            curve = Curve(
                column,
                "opt-13b",
                SYSTEMS[name][0],
                lambda rate: spec("sharegpt", rate, seconds(column), f"rounds=5,history=1024,new={share}"),
            )
            curves[name] = (curve.at_limits(0.6), curve)
        at[share] = {name: r for name, (r, _) in curves.items()}
        panels.append(panel(f"chatbot, p = {share}", curves, {name: SYSTEMS[name][1] for name in NAMES}))
        rows += [[share, name, *r, at[share]["vLLM"][0] / r[0]] for name, r in at[share].items()]
        rates.append(rates_line(f"17 chatbot, p = {share}", at[share], {"vLLM": 1.1} if share == 0.5 else {}))

    def over(vllm, orca, wanted):
        return [(name.replace("Orca ", ""), wanted, at[vllm]["vLLM"][0] / at[orca][name][0]) for name in FOUR[1:]]

    claims = [
        Claim("17", "chatbot, p = 0.5 for all: vLLM over", over(0.5, 0.5, 2.0), "x", WHY),
        Claim("17", "chatbot, p = 0.1 for all: vLLM over", over(0.1, 0.1, 2.0), "x", WHY),
        Claim(
            "17",
            "chatbot as the authors' scripts run it: vLLM at p = 0.5 over, at p = 0.1",
            over(0.5, 0.1, 2.0),
            "x",
            WHY,
        ),
        Claim(
            "17",
            "Pagoda's defaults over vLLM, worst of two",
            [("", (0.98, 1e9), min(r["Pagoda"][0] / r["vLLM"][0] for r in at.values()))],
            "x",
        ),
    ]
    return Figure(
        claims,
        ["new_share", "system", "sustained_at_0.5", "sustained_at_1", "vllm_over_it"],
        rows,
        panels,
        [(name, SYSTEMS[name][1]) for name in NAMES],
        2,
        rates,
    )
