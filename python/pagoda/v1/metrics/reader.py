"""Classes of LLM.get_metrics(), as in vLLM, and the parser of the Prometheus text format that creates them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

SAMPLE = re.compile(r"(?P<name>[A-Za-z_:][\w:]*)(?:\{(?P<labels>.*)\})? (?P<value>\S+)")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
ESCAPED = {r"\n": "\n", r"\"": '"', r"\\": "\\"}


@dataclass
class Metric:
    name: str
    labels: dict[str, str]


@dataclass
class Counter(Metric):
    value: int


@dataclass
class Vector(Metric):
    values: list[int]


@dataclass
class Gauge(Metric):
    value: float


@dataclass
class Histogram(Metric):
    count: int = 0
    sum: float = 0.0
    buckets: dict[str, int] = field(default_factory=dict)


def read_metrics(text: str) -> list[Metric]:
    """Returns the metrics with vLLM's names: counters without the suffix `_total`."""
    kinds: dict[str, str] = {}
    found: list[Metric] = []
    histograms: dict[tuple[str, tuple[tuple[str, str], ...]], Histogram] = {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kinds[name] = line.split(" ", 3)
        sample = SAMPLE.fullmatch(line)
        if line.startswith("#") or sample is None:
            continue
        name, value = sample["name"], float(sample["value"])
        labels = {
            label: re.sub(r"\\.", lambda escape: ESCAPED.get(escape[0], escape[0]), text)
            for label, text in LABEL.findall(sample["labels"] or "")
        }
        kind = kinds.get(name)
        if kind == "counter":
            found.append(Counter(name.removesuffix("_total"), labels, int(value)))
        elif kind == "gauge":
            found.append(Gauge(name, labels, value))
        else:
            family, _, part = name.rpartition("_")
            if kinds.get(family) != "histogram":
                continue
            bound = labels.pop("le", "")
            key = family, tuple(labels.items())
            if key not in histograms:
                histograms[key] = Histogram(family, labels)
                found.append(histograms[key])
            if part == "bucket":
                histograms[key].buckets[bound] = int(value)
            elif part == "sum":
                histograms[key].sum = value
            else:
                histograms[key].count = int(value)
    return found


__all__ = ["Counter", "Gauge", "Histogram", "Metric", "Vector", "read_metrics"]
