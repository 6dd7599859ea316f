"""Shared code of the figures: running the simulator, searching rates, CSV and SVG. Standard library only.

A figure is a module with make(column) -> Figure. `column` selects the cost models: "paper" (the main one) or
"roofline"; cost(column, "opt-13b") is the simulator's name of the cost model."""

import csv
import hashlib
import html
import json
import math
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "docs/paper"
CACHE = ROOT / "build/paper_cache"
PAGODA = os.environ.get("PAGODA", str(ROOT / "build/pagoda"))

# Simulated seconds of arrivals: the authors' scripts (their artifact) run 600 s, FasterTransformer's an hour.
SECONDS = float(os.environ.get("PAPER_SECONDS", "600"))
# A system sustains a rate while its mean normalized latency is below a limit, in seconds per token: half of the paper's
# axis, and its top. Ratios are at the first limit unless stated otherwise.
LIMITS = (0.5, 1.0)

# Only memory limits the batch, in every system but FasterTransformer.
MANY = ["--max-num-seqs", "1024"]
# Orca has no limit on the tokens of a step, as in the authors' version; vLLM has its default. No request is refused.
QUEUE = ["--max-queue", "1000000"]
WHOLE = ["--no-enable-chunked-prefill", *QUEUE]
UNBOUNDED = ["--max-num-batched-tokens", "200000"]
ORCA = MANY + WHOLE + UNBOUNDED + ["--scheduler", "orca", "--kv-manager", "reserved", "--reserve"]
SYSTEMS = {  # name: (flags, colour)
    "Orca (Max)": (ORCA + ["max"], "#d62728"),
    "Orca (Pow2)": (ORCA + ["pow2"], "#ff7f0e"),
    "Orca (Oracle)": (ORCA + ["oracle"], "#2ca02c"),
    "vLLM": (MANY + WHOLE + ["--no-enable-prefix-caching"], "#1f77b4"),
    "Pagoda": (MANY + QUEUE, "#9467bd"),
}
FT = "FasterTransformer"
FT_COLOUR = "#7f7f7f"
FOUR = ["vLLM", "Orca (Oracle)", "Orca (Pow2)", "Orca (Max)"]
COLOURS = [(FT, FT_COLOUR)] + [(name, colour) for name, (_, colour) in SYSTEMS.items()]
ROOFLINES = {
    "opt-13b": "a100-40gb/opt-13b/tp1",
    "opt-66b": "a100-40gb/opt-66b/tp4",
    "opt-175b": "a100-80gb/opt-175b/tp8",
    "llama-13b": "a100-40gb/llama-13b/tp1",
}


def fastertransformer(batch):
    """Returns the flags of FasterTransformer with `batch` requests per batch, which the caller fits to the memory."""
    return (
        WHOLE
        + UNBOUNDED
        + [
            "--max-num-seqs",
            str(batch),
            "--scheduler",
            "fastertransformer",
            "--kv-manager",
            "reserved",
            "--reserve",
            "oracle",
        ]
    )


def cost(column, model):
    return f"paper/{model}" if column == "paper" else ROOFLINES[model]


def simulate(model, flags, workload):
    """Returns the simulator's JSON. Cached in build/paper_cache: the same program and command give the same bytes."""
    command = [PAGODA, "simulate", "--cost-model", model, "--workload", workload, "--output-json", "-", *flags]
    stamp = str(os.stat(PAGODA).st_mtime_ns)
    name = hashlib.sha256(json.dumps(command[1:] + [stamp]).encode()).hexdigest()[:24]
    path = CACHE / f"{name}.json"
    if not path.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
        path.write_text(done.stdout)
    return json.loads(path.read_text())


def print_cost_model(model):
    done = subprocess.run(
        [PAGODA, "simulate", "--cost-model", model, "--print-cost-model"], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def spec(name, rate, seconds, extra=""):
    return f"{name}:rate={rate:g},duration={seconds:g},seed=1,quantum=0.01{',' + extra if extra else ''}"


def latency(result):
    return result["normalized_latency_s"]["mean"]


def seconds(column, paper=SECONDS):
    """Returns the seconds of arrivals: `paper`, or a third for the roofline, whose rates are over twice as high."""
    return paper if column == "paper" else paper / 3


class Curve:
    """Normalized latency of one system by request rate, at the rates simulated so far. With the roofline, the second
    column, rates are found to 5 %, only for the first limit, and nothing is drawn."""

    def __init__(self, column, model, flags, make_workload):
        self.run = lambda rate: simulate(cost(column, model), flags, make_workload(rate))
        self.rough = column != "paper"
        self.points = {}

    def at(self, rate):
        rate = float(f"{rate:.4g}")
        if rate not in self.points:
            self.points[rate] = latency(self.run(rate))
        return self.points[rate]

    def sustained(self, guess, limit=LIMITS[0], factor=1.4):
        """Returns the rate at which the latency passes the limit, to 2 %. The search begins in steps of `factor`."""
        low, high = None, None
        rate = guess
        while low is None or high is None:
            if self.at(rate) <= limit:
                low, rate = rate, rate * factor
            else:
                high, rate = rate, rate / factor
        while high / low > (1.05 if self.rough else 1.02):
            middle = (low * high) ** 0.5
            if self.at(middle) <= limit:
                low = middle
            else:
                high = middle
        return (low * high) ** 0.5

    def at_limits(self, guess):
        """Returns the sustained rate at each of LIMITS."""
        first = self.sustained(guess)
        return [first] + [
            float("nan") if self.rough else self.sustained(first * 1.05, limit, 1.1) for limit in LIMITS[1:]
        ]


class Figure:
    """Results of a figure: claims for docs/paper.md, header and rows of the CSV, panels and legend of the picture, and
    lines of the table of absolute rates."""

    def __init__(self, claims, header=(), rows=(), panels=(), legend=(), columns=3, rates=()):
        self.claims, self.header, self.rows, self.panels = claims, header, rows, panels
        self.legend, self.columns, self.rates = legend, columns, rates


class Claim:
    """A row of docs/paper.md. Entries are (label, paper, ours); `paper` is a number or a range (low, high), of which
    the nearer end counts. `why` is printed if an entry is off by more than the tolerance. `real`: names of rows of
    docs/paper/real.csv, or pairs of a label and a name."""

    def __init__(self, figure, what, entries, unit="", why="", tolerance=0.15, real=(), given=""):
        self.figure, self.what, self.unit, self.why = figure, what, unit, why
        self.entries = [(label.strip("()"), paper, ours) for label, paper, ours in entries]
        self.tolerance, self.real, self.given = tolerance, real, given

    @staticmethod
    def ratio(paper, ours):
        return ours / min(max(ours, paper[0]), paper[1]) if isinstance(paper, tuple) else ours / paper

    def ratios(self):
        return [self.ratio(paper, ours) for _, paper, ours in self.entries]

    def holds(self):
        return not any(map(math.isnan, self.ratios())) and all(
            abs(ratio - 1) <= self.tolerance for ratio in self.ratios()
        )


def rates_line(title, curves, ends):
    """Returns a line of the table of absolute rates. curves: {system: (rates at LIMITS)}; ends: {system: highest rate
    in the authors' scripts}."""
    cells = []
    for name, rates in curves.items():
        end = f" ({ends[name]:g})" if name in ends else ""
        cells.append(f"{' / '.join(f'{rate:.3g}' for rate in rates)}{end}")
    return [title, *cells]


def write_csv(name, header, rows):
    OUT.mkdir(parents=True, exist_ok=True)
    with open(OUT / f"{name}.csv", "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        for row in rows:
            writer.writerow([f"{x:.5g}" if isinstance(x, float) else x for x in row])


# ---- SVG ---------------------------------------------------------------------------------------------------

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 330, 210, 52, 10, 26, 42


def nice_step(span, count=5):
    raw = span / count
    power = 10.0 ** len(str(int(raw))) / 10 if raw >= 1 else 1.0
    while power > raw:
        power /= 10
    return next(power * f for f in (1, 2, 2.5, 5, 10) if power * f >= raw)


def number(value):
    return f"{value:g}" if abs(value) < 10000 else f"{value / 1000:g}k"


def text(x, y, body, anchor="middle", size=11, turn=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}"{turn}>{html.escape(body)}</text>'


def axes(x0, y0, title, xlabel, ylabel, ticks_x, ticks_y):
    """ticks: [(pixel, label)]"""
    out = [
        (
            f'<rect x="{x0 + LEFT}" y="{y0 + TOP}" width="{WIDTH - LEFT - RIGHT}" '
            f'height="{HEIGHT - TOP - BOTTOM}" fill="none" stroke="#444"/>'
        ),
        text(x0 + LEFT + (WIDTH - LEFT - RIGHT) / 2, y0 + TOP - 9, title, size=12),
        text(x0 + LEFT + (WIDTH - LEFT - RIGHT) / 2, y0 + HEIGHT - 8, xlabel),
        text(
            x0 + 12,
            y0 + TOP + (HEIGHT - TOP - BOTTOM) / 2,
            ylabel,
            turn=f' transform="rotate(-90 {x0 + 12} {y0 + TOP + (HEIGHT - TOP - BOTTOM) / 2})"',
        ),
    ]
    for x, label in ticks_x:
        out.append(text(x, y0 + HEIGHT - BOTTOM + 14, label, size=10))
    for y, label in ticks_y:
        out.append(f'<line x1="{x0 + LEFT}" y1="{y:.1f}" x2="{x0 + WIDTH - RIGHT}" y2="{y:.1f}" stroke="#eee"/>')
        out.append(text(x0 + LEFT - 4, y + 4, label, "end", 10))
    return out


def legend(entries, y):
    out, x = [], LEFT
    for name, colour in entries:
        out.append(f'<rect x="{x}" y="{y}" width="14" height="8" fill="{colour}"/>')
        out.append(text(x + 18, y + 8, name, "start"))
        x += 30 + 7 * len(name)
    return out


def svg(name, panels, entries, columns=3):
    """panels: functions (x0, y0) -> list of elements."""
    rows = (len(panels) + columns - 1) // columns
    columns = min(columns, len(panels))
    width = max(columns * WIDTH, LEFT + sum(30 + 7 * len(e[0]) for e in entries) + 20)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{rows * HEIGHT + 24}" '
        'font-family="sans-serif"><rect width="100%" height="100%" fill="white"/>'
    ]
    out += legend(entries, 6)
    for i, panel in enumerate(panels):
        out += panel(i % columns * WIDTH, 24 + i // columns * HEIGHT)
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / f"{name}.svg").write_text("\n".join(out) + "\n</svg>\n")


def lines(title, xlabel, ylabel, series, top, right=None, log_x=False):
    """series: {name: (colour, [(x, y)])}. Lines leave the panel above `top`."""

    def draw(x0, y0):
        import math

        xs = [x for _, points in series.values() for x, _ in points]
        low, high = (min(xs), max(xs)) if log_x else (0, right or max(xs))
        inner_x, inner_y = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

        def px(x):
            part = (math.log(x / low) / math.log(high / low)) if log_x else (x - low) / (high - low)
            return x0 + LEFT + inner_x * part

        def py(y):
            return y0 + TOP + inner_y * (1 - min(y, top * 1.0) / top)

        if log_x:
            ticks_x = [(px(x), number(x)) for x in sorted(set(xs))]
        else:
            step = nice_step(high)
            ticks_x = [(px(i * step), number(i * step)) for i in range(int(high / step + 1e-9) + 1)]
        step = nice_step(top, 4)
        ticks_y = [(py(i * step), number(round(i * step, 9))) for i in range(int(top / step + 1e-9) + 1)]
        out = axes(x0, y0, title, xlabel, ylabel, ticks_x, ticks_y)
        for colour, points in series.values():
            path, inside = [], True
            for x, y in sorted(points):
                if not inside:
                    break
                inside = y <= top
                path.append(f"{px(x):.1f},{py(y):.1f}")
            out.append(f'<polyline points="{" ".join(path)}" fill="none" stroke="{colour}" stroke-width="1.8"/>')
            out += [f'<circle cx="{p.split(",")[0]}" cy="{p.split(",")[1]}" r="2" fill="{colour}"/>' for p in path]
        return out

    return draw


def bars(title, ylabel, groups, series, top, values=True):
    """series: {name: (colour, [one value per group])}"""

    def draw(x0, y0):
        inner_x, inner_y = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
        step = nice_step(top, 4)
        ticks_y = [
            (y0 + TOP + inner_y * (1 - i * step / top), number(round(i * step, 9)))
            for i in range(int(top / step + 1e-9) + 1)
        ]
        slot = inner_x / len(groups)
        ticks_x = [(x0 + LEFT + slot * (i + 0.5), group) for i, group in enumerate(groups)]
        out = axes(x0, y0, title, "", ylabel, ticks_x, ticks_y)
        width = slot * 0.8 / len(series)
        for j, (colour, heights) in enumerate(series.values()):
            for i, value in enumerate(heights):
                height = inner_y * min(value, top) / top
                x = x0 + LEFT + slot * i + slot * 0.1 + width * j
                y = y0 + TOP + inner_y - height
                out.append(
                    f'<rect x="{x:.1f}" y="{y:.1f}" width="{width * 0.95:.1f}" height="{height:.1f}" fill="{colour}"/>'
                )
                if values:
                    out.append(text(x + width / 2, y - 2, f"{value:.3g}", size=8))
        return out

    return draw
