"""Formats the samples of bench/peers/run as a table: median and best, ratio to the best peer, share of the limit."""

import statistics

import cases

DISTURBED = 0.1  # share of the machine used by other processes


def cells(result):
    """Returns {row: {engine: (median, best, samples, whether all are disturbed)}}."""
    samples = {}
    for sample in result["samples"]:
        if sample["row"] not in cases.ROWS:  # from an older version of the cases
            continue
        samples.setdefault(sample["row"], {}).setdefault(sample["engine"], []).append(sample)
    out = {}
    for row, engines in samples.items():
        for engine, found in engines.items():
            clean = [s["value"] for s in found if s["others"] <= DISTURBED]
            values = clean or [s["value"] for s in found]
            out.setdefault(row, {})[engine] = (
                statistics.median(values),
                cases.ROWS[row].best(values),
                len(values),
                not clean,
            )
    return out


def number(value):
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def best_probe(result):
    """Returns the fastest probe of the machine, to which shares refer."""
    return {key: max(probe[key] for probe in result["probes"] if key in probe) for key in result["probes"][0]}


def markdown(result):
    table = cells(result)
    engines = list(dict.fromkeys(sample["engine"] for sample in result["samples"]))
    ours = [engine for engine in engines if engine.startswith("Pagoda")]
    peers = [engine for engine in engines if engine not in ours]
    probe = best_probe(result)
    lines = [
        "| median / best | " + " | ".join(ours + peers) + " | of the best peer | of the limit |",
        "|---|" + "---:|" * (len(engines) + 2),
    ]
    for key, row in cases.ROWS.items():
        if key not in table:
            continue
        shown, found = [], table[key]
        for engine in ours + peers:
            if engine not in found:
                shown.append("–")
                continue
            median, best, _, disturbed = found[engine]
            shown.append(f"{number(median)} / {number(best)}" + ("*" if disturbed else ""))
        medians = {engine: cell[0] for engine, cell in found.items()}
        others = [medians[engine] for engine in peers if engine in medians]
        ratios, shares = [], []
        for engine in ours:
            if engine not in medians:
                continue
            if others:
                ratios.append(f"{medians[engine] / row.best(others):.2f}")
            if row.limit:
                shares.append(f"{medians[engine] / row.limit(probe, result['model'], engine.split()[-1]):.0%}")
        lines.append(
            f"| {row.title}, {row.unit} | "
            + " | ".join(shown)
            + f" | {', '.join(ratios) or '–'} | {', '.join(shares) or '–'} |"
        )
    rates = [p["read_gbps"] for p in result["probes"]]
    counts = [cell[2] for engines in table.values() for cell in engines.values()]
    lines += [
        "",
        (
            f"{min(counts)} to {max(counts)} samples a cell. Around the cases the machine read "
            f"{min(rates):.0f} to {max(rates):.0f} GB/s and did up to {probe['bf16_gflops']:.0f} GFLOP/s in "
            f"{'float32' if probe.get('level') == 'avx2' else 'bfloat16'} and "
            f"{probe['int8_gops']:.0f} GOP/s in 8 bits on {probe['threads']} threads."
        ),
    ]
    if any(cell[3] for engines in table.values() for cell in engines.values()):
        lines.append("*: other processes had more than a tenth of the machine in every sample.")
    return "\n".join(lines) + "\n"
