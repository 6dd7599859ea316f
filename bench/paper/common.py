"""What the figures share: running the simulator, searching rates, CSV and SVG. Standard library only."""
import csv
import hashlib
import html
import json
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "docs/paper"
CACHE = ROOT / "build/paper_cache"
PAGODA = os.environ.get("PAGODA", str(ROOT / "build/pagoda"))

VARIANT = os.environ.get("PAPER_VARIANT", "")  # "": the roofline; "paper steps"
SUFFIX = "_paper_steps" if VARIANT else ""

# The trace's length, as a share of the paper's hour (a quarter of an hour for OPT-175B).
SCALE = float(os.environ.get("PAPER_SCALE", "0.25"))
# A system sustains a rate while its mean normalized latency is below this: half of the paper's axis.
LIMIT = 0.5

# Memory alone limits the batch, in every system.
MANY = ["--max-num-seqs", "1024"]
WHOLE = [*MANY, "--no-enable-chunked-prefill"]
ORCA = WHOLE + ["--scheduler", "orca", "--kv-manager", "reserved", "--reserve"]
SYSTEMS = {  # name: (flags, colour)
    "FasterTransformer": (WHOLE + ["--scheduler", "fastertransformer", "--kv-manager", "reserved",
                                   "--reserve", "max"], "#7f7f7f"),
    "Orca (Max)": (ORCA + ["max"], "#d62728"),
    "Orca (Pow2)": (ORCA + ["pow2"], "#ff7f0e"),
    "Orca (Oracle)": (ORCA + ["oracle"], "#2ca02c"),
    "vLLM": (WHOLE + ["--no-enable-prefix-caching"], "#1f77b4"),
    "Pagoda": (MANY, "#9467bd"),
}
OPT_13B, OPT_66B, OPT_175B = "a100-40gb/opt-13b/tp1", "a100-40gb/opt-66b/tp4", "a100-80gb/opt-175b/tp8"
LLAMA_13B = "a100-40gb/llama-13b/tp1"


def simulate(model, flags, workload):
    """The simulator's JSON. Kept in build/paper_cache: the same command gives the same bytes."""
    command = [PAGODA, "simulate", "--cost-model", model, "--workload", workload, "--output-json", "-", *flags]
    stamp = str(os.stat(PAGODA).st_mtime_ns) if os.environ.get("PAPER_FRESH") else ""
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
    done = subprocess.run([PAGODA, "simulate", "--cost-model", model, "--print-cost-model"], capture_output=True,
                          text=True, check=True)
    return json.loads(done.stdout)


# Little's law on the paper's Fig. 13: requests in the batch = tokens a second * seconds of a step. So the paper's
# vLLM steps take 45 ms with 30.42 requests (ShareGPT, 2 req/s) and 76 ms with 132.44 (Alpaca, 30 req/s).
FIG13_VLLM = {"sharegpt": (30.42, 2 * 337.99), "alpaca": (132.44, 30 * 58.45)}


def paper_steps(model):
    """The cost model with steps as slow as the paper's: what its two steps take beyond the roofline, as an overhead
    of a step and of each sequence in it. Two numbers from two bars of one figure; all else is prediction."""
    base = print_cost_model(OPT_13B)
    beyond = []
    for workload, rate in (("sharegpt", 2), ("alpaca", 30)):
        batch, tokens_per_s = FIG13_VLLM[workload]
        step = batch / tokens_per_s
        seen = simulate(OPT_13B, SYSTEMS["vLLM"][0], spec(workload, rate, 600))
        slots = seen["config"]["num_blocks"] * seen["config"]["block_size"]
        context = seen["kv"]["in_use"] * slots / seen["batched_sequences"]["by_step"]
        rows = batch + step * seen["prompt_tokens"] / seen["duration_s"]
        linear = max(base["parameters"] * base["bytes_per_parameter"] / base["memory_bytes_per_s"],
                     2 * base["parameters"] * rows / base["flops_per_s"])
        head = base["head_parameters"] * base["bytes_per_parameter"] / base["memory_bytes_per_s"]
        attention = batch * context * base["kv_bytes_per_token"] / base["attention_bytes_per_s"]
        beyond.append((batch, step - linear - head - attention))
    (b1, t1), (b2, t2) = beyond
    per_sequence = (t2 - t1) / (b2 - b1)
    data = print_cost_model(model)
    data["step_overhead_s"] = t1 - per_sequence * b1
    data["sequence_overhead_s"] = per_sequence
    data["name"] += ", the paper's steps"
    CACHE.mkdir(parents=True, exist_ok=True)
    path = CACHE / f"{model.replace('/', '_')}_paper_steps.json"
    path.write_text(json.dumps(data, indent=1))
    return str(path)


def chosen(model):
    """The cost model of this run's variant."""
    return paper_steps(model) if VARIANT == "paper steps" else model


def spec(name, rate, seconds, extra=""):
    return f"{name}:rate={rate:g},duration={seconds:g},seed=1{',' + extra if extra else ''}"


def latency(result):
    return result["normalized_latency_s"]["mean"]


class Curve:
    """Normalized latency of one system against the request rate, as far as it has been asked for."""

    def __init__(self, model, flags, make_workload):
        self.run = lambda rate: simulate(model, flags, make_workload(rate))
        self.points = {}

    def at(self, rate):
        rate = float(f"{rate:.4g}")
        if rate not in self.points:
            self.points[rate] = latency(self.run(rate))
        return self.points[rate]

    def sustained(self, guess, limit=LIMIT):
        """The rate at which the latency passes the limit, to 2 %."""
        low, high = None, None
        rate = guess
        while low is None or high is None:
            if self.at(rate) <= limit:
                low, rate = rate, rate * 1.6
            else:
                high, rate = rate, rate / 1.6
        while high / low > 1.02:
            middle = (low * high) ** 0.5
            if self.at(middle) <= limit:
                low = middle
            else:
                high = middle
        return (low * high) ** 0.5


def write_csv(name, header, rows):
    OUT.mkdir(parents=True, exist_ok=True)
    with open(OUT / f"{name}{SUFFIX}.csv", "w", newline="") as file:
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
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}"{turn}>'
            f"{html.escape(body)}</text>")


def axes(x0, y0, title, xlabel, ylabel, ticks_x, ticks_y):
    """ticks: [(pixel, label)]"""
    out = [f'<rect x="{x0 + LEFT}" y="{y0 + TOP}" width="{WIDTH - LEFT - RIGHT}" '
           f'height="{HEIGHT - TOP - BOTTOM}" fill="none" stroke="#444"/>',
           text(x0 + LEFT + (WIDTH - LEFT - RIGHT) / 2, y0 + TOP - 9, title, size=12),
           text(x0 + LEFT + (WIDTH - LEFT - RIGHT) / 2, y0 + HEIGHT - 8, xlabel),
           text(x0 + 12, y0 + TOP + (HEIGHT - TOP - BOTTOM) / 2, ylabel,
                turn=f' transform="rotate(-90 {x0 + 12} {y0 + TOP + (HEIGHT - TOP - BOTTOM) / 2})"')]
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
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{rows * HEIGHT + 24}" '
           'font-family="sans-serif"><rect width="100%" height="100%" fill="white"/>']
    out += legend(entries, 6)
    for i, panel in enumerate(panels):
        out += panel(i % columns * WIDTH, 24 + i // columns * HEIGHT)
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / f"{name}{SUFFIX}.svg").write_text("\n".join(out) + "\n</svg>\n")


def lines(title, xlabel, ylabel, series, top, right=None, log_x=False):
    """series: {name: (colour, [(x, y)])}; what is above `top` leaves the panel."""
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
    """series: {name: (colour, [one value a group])}"""
    def draw(x0, y0):
        inner_x, inner_y = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
        step = nice_step(top, 4)
        ticks_y = [(y0 + TOP + inner_y * (1 - i * step / top), number(round(i * step, 9)))
                   for i in range(int(top / step + 1e-9) + 1)]
        slot = inner_x / len(groups)
        ticks_x = [(x0 + LEFT + slot * (i + 0.5), group) for i, group in enumerate(groups)]
        out = axes(x0, y0, title, "", ylabel, ticks_x, ticks_y)
        width = slot * 0.8 / len(series)
        for j, (colour, heights) in enumerate(series.values()):
            for i, value in enumerate(heights):
                height = inner_y * min(value, top) / top
                x = x0 + LEFT + slot * i + slot * 0.1 + width * j
                y = y0 + TOP + inner_y - height
                out.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width * 0.95:.1f}" height="{height:.1f}" '
                           f'fill="{colour}"/>')
                if values:
                    out.append(text(x + width / 2, y - 2, f"{value:.3g}", size=8))
        return out
    return draw


class Claim:
    """A row of docs/paper.md. `paper` and `ours` are numbers; `paper` may be a range (low, high)."""

    def __init__(self, figure, what, paper, ours, unit="", why=""):
        self.figure, self.what, self.paper, self.ours, self.unit, self.why = figure, what, paper, ours, unit, why

    def ratio(self):
        if isinstance(self.paper, tuple):
            low, high = self.paper
            return self.ours / min(max(self.ours, low), high)
        return self.ours / self.paper

    def data(self):
        low, high = self.paper if isinstance(self.paper, tuple) else (self.paper, None)
        paper = f"{low:g}{self.unit}" if high is None else (
            f"over {low:g}{self.unit}" if high >= 100 else f"{low:g} to {high:g}{self.unit}")
        return {"figure": self.figure, "what": self.what, "paper": paper, "ours": f"{self.ours:.3g}{self.unit}",
                "ratio": self.ratio(), "why": self.why, "low": low, "high": high}
