"""Fig. 2: use of the KV cache, OPT-13B on ShareGPT at a rate that fills every system (the authors' 4 req/s, 900 s)."""

from common import SYSTEMS, Claim, Figure, bars, cost, simulate, spec

PARTS = {
    "token": ("token states", "#2ca02c"),
    "reserved": ("reserved", "#ff7f0e"),
    "internal": ("internal frag.", "#d62728"),
    "external": ("external frag.", "#7f7f7f"),
}
PAPER = {"Orca (Max)": 20.4, "Orca (Pow2)": 26.8, "Orca (Oracle)": 38.2, "vLLM": 96.3}
NAMES = [*PAPER, "Pagoda"]


def make(column):
    shares = {
        name: simulate(cost(column, "opt-13b"), SYSTEMS[name][0], spec("sharegpt", 4, 900))["kv"] for name in NAMES
    }
    claim = Claim(
        "2",
        "token states in the KV cache",
        [(n.replace("Orca ", ""), PAPER[n], 100 * shares[n]["token"]) for n in PAPER],
        " %",
    )
    panel = bars(
        "KV cache usage (%)",
        "%",
        [n.replace("Orca ", "") for n in NAMES],
        {label: (colour, [100 * shares[name][part] for name in NAMES]) for part, (label, colour) in PARTS.items()},
        110,
        values=False,
    )
    return Figure(
        [claim],
        ["system", *PARTS],
        [[name, *(100 * shares[name][part] for part in PARTS)] for name in NAMES],
        [panel],
        list(PARTS.values()),
        1,
    )
