"""Fig. 12: normalized latency against request rate, three OPT models, ShareGPT and Alpaca."""

from common import (
    COLOURS,
    FOUR,
    FT,
    LIMITS,
    SECONDS,
    SYSTEMS,
    Claim,
    Curve,
    Figure,
    fastertransformer,
    lines,
    rates_line,
    seconds,
    spec,
)

# Title, model, workload, FasterTransformer's batch (from the authors' run scripts: as large as memory allows), and the
# highest rates for vLLM, Oracle, Pow2, Max and FasterTransformer in the authors' scripts.
PANELS = [
    ("(a) OPT-13B, ShareGPT", "opt-13b", "sharegpt", 5, (2.0, 1.5, 0.9, 0.75, 0.35)),
    ("(b) OPT-66B, ShareGPT", "opt-66b", "sharegpt", 2, (1.0, 0.5, 0.35, 0.3, 0.2)),
    ("(c) OPT-175B, ShareGPT", "opt-175b", "sharegpt", 24, (3.0, 1.8, 1.5, 1.25, 0.3)),
    ("(d) OPT-13B, Alpaca", "opt-13b", "alpaca", 14, (31.5, 24, 18, 5, 3)),
    ("(e) OPT-66B, Alpaca", "opt-66b", "alpaca", 8, (20, 12, 7, 0.25, 2.5)),
    ("(f) OPT-175B, Alpaca", "opt-175b", "alpaca", 80, (22, 22, 19, 7, 5)),
]

WORKERS = "the overhead is that of one GPU's program; what telling 4 or 8 workers of each step cost is not in it"


def panel(title, curves, colours, top=LIMITS[1]):
    """curves: {system: (rates at LIMITS, Curve)}"""
    if any(curve.rough for _, curve in curves.values()):
        return None
    right = max(rates[0] for rates, _ in curves.values()) * 1.15
    for rates, curve in curves.values():  # also the flat part
        for share in (0.25, 0.5, 0.75, 0.9):
            curve.at(rates[0] * share)
    series = {
        name: (colours[name], [(x, y) for x, y in curve.points.items() if x <= right])
        for name, (_, curve) in curves.items()
    }
    return lines(title, "request rate (req/s)", "normalized latency (s/token)", series, top, right)


def sweep(column, model, workload, batch, ends):
    """Returns {system: (rates at LIMITS, Curve)}."""
    out = {}
    for name, guess in zip([*FOUR, "Pagoda"], [*ends[:4], ends[0]]):
        curve = Curve(column, model, SYSTEMS[name][0], lambda rate: spec(workload, rate, seconds(column)))
        out[name] = (curve.at_limits(guess), curve)
    curve = Curve(
        column, model, fastertransformer(batch), lambda rate: spec(workload, rate, seconds(column, 3 * SECONDS))
    )
    out[FT] = (curve.at_limits(ends[4] / 2), curve)
    return out


def make(column):
    claims, panels, rows, rates = [], [], [], []
    colours = dict(COLOURS)
    worst, over_ft = [], [[], []]
    for title, model, workload, batch, ends in PANELS:
        curves = sweep(column, model, workload, batch, ends)
        panels.append(panel(title, curves, colours))
        at = {name: r for name, (r, _) in curves.items()}
        rows += [[title, name, *r, *(at["vLLM"][i] / r[i] for i in range(2))] for name, r in at.items()]
        rates.append(
            rates_line(
                f"12{title[1]} {title[4:]}", {n: at[n] for n in [*FOUR, "Pagoda", FT]}, dict(zip([*FOUR, FT], ends))
            )
        )
        worst.append(at["Pagoda"][0] / at["vLLM"][0])
        over = {name: at["vLLM"][0] / at[name][0] for name in FOUR[1:]}
        figure = "12" + title[1]
        if workload == "sharegpt":
            why = (
                "at these batches reading K/V takes about as long as reading the weights, so a larger batch gains less"
                " than its size"
                if model == "opt-175b"
                else ""
            )
            claims.append(
                Claim(
                    figure,
                    f"{title[4:]}: vLLM over Orca",
                    [("Oracle", (1.7, 2.7), over["Orca (Oracle)"]), ("Max", (2.7, 8.0), over["Orca (Max)"])],
                    "x",
                    why,
                    real=(
                        [(n, f"sharegpt by four: vLLM over Orca ({n})") for n in ("Oracle", "Max")]
                        if title[1] == "a"
                        else ()
                    ),
                )
            )
            for i in range(2):
                over_ft[i].append(at["vLLM"][i] / at[FT][i])
        elif model == "opt-13b":
            claims.append(
                Claim(figure, f"{title[4:]}: vLLM over Orca (Oracle)", [("", 1.3, over["Orca (Oracle)"])], "x")
            )
        elif model == "opt-175b":
            claims.append(
                Claim(
                    figure,
                    f'{title[4:]}: vLLM over Orca (Oracle), "less pronounced"',
                    [("", (1.0, 1.3), over["Orca (Oracle)"])],
                    "x",
                )
            )
        claims.append(
            Claim(
                figure,
                f"{title[4:]}: req/s, against the end of the sweeps",
                [(name.replace("Orca ", ""), end, at[name][0]) for name, end in zip(FOUR, ends)],
                tolerance=0.25,
                why=WORKERS
                + (
                    "; the script ends Max's sweep at 0.25, a twentieth of the smaller model's"
                    if title[1] == "e"
                    else ""
                ),
            )
        )
    each = "; ".join(
        f"at {limit:g}: " + ", ".join(f"{model} {ratio:.3g}x" for model, ratio in zip(("13B", "66B", "175B"), over))
        for limit, over in zip(LIMITS, over_ft)
    )
    claims.append(
        Claim(
            "12a-c",
            'ShareGPT: vLLM over FasterTransformer, the most ("up to 22x"; no limit is named), by limit in s/token',
            [(f"{limit:g}", 22, max(over)) for limit, over in zip(LIMITS, over_ft)],
            "x",
            why=("answers of a batch come together, and short ones wait for the longest; lower limits cost more"),
            given=each,
        )
    )
    claims.append(Claim("12", "Pagoda's defaults over vLLM, worst of six", [("", (0.98, 1e9), min(worst))], "x"))
    return Figure(
        claims,
        [
            "panel",
            "system",
            *(f"sustained_at_{limit:g}" for limit in LIMITS),
            *(f"vllm_over_it_at_{limit:g}" for limit in LIMITS),
        ],
        rows,
        panels,
        COLOURS,
        3,
        rates,
    )
