"""Fig. 2: where the KV cache goes, OPT-13B on ShareGPT at a rate that fills every system."""
from common import OPT_13B, SCALE, SYSTEMS, Claim, bars, simulate, spec, svg, write_csv

PARTS = {"token": ("token states", "#2ca02c"), "reserved": ("reserved", "#ff7f0e"),
         "internal": ("internal frag.", "#d62728"), "external": ("external frag.", "#7f7f7f")}
NAMES = ["Orca (Max)", "Orca (Pow2)", "Orca (Oracle)", "vLLM", "Pagoda"]
PAPER = {"Orca (Max)": 20.4, "Orca (Pow2)": 26.8, "Orca (Oracle)": 38.2, "vLLM": 96.3}


def make():
    shares = {name: simulate(OPT_13B, SYSTEMS[name][0], spec("sharegpt", 4.5, 3600 * SCALE))["kv"] for name in NAMES}
    write_csv("fig02", ["system", *PARTS], [[name, *(100 * shares[name][part] for part in PARTS)] for name in NAMES])
    panels = [bars("KV cache usage (%)", "%", [n.replace("Orca ", "") for n in NAMES],
                   {label: (colour, [100 * shares[name][part] for name in NAMES])
                    for part, (label, colour) in PARTS.items()}, 110, values=False)]
    svg("fig02", panels, [(label, colour) for label, colour in PARTS.values()], columns=1)
    return [Claim("2", f"token states in the KV cache, {name}", PAPER[name], 100 * shares[name]["token"], " %",
                  "depends on the lengths' distribution, of which the paper prints only means")
            for name in PAPER]
