"""Progress of a batch: a tqdm bar if tqdm is installed, otherwise a line on the terminal."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any


class PlainBar:
    def __init__(self, total: int, desc: str) -> None:
        self.done, self.total, self.desc = 0, total, desc
        self.shown = sys.stderr.isatty()

    def update(self, count: int) -> None:
        self.done += count
        if self.shown:
            print(f"\r{self.desc}: {self.done}/{self.total}", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        if self.shown:
            print(file=sys.stderr)


class Progress:
    """`wanted` is vLLM's use_tqdm: a bool, or a callable that returns a progress bar."""

    def __init__(self, wanted: Any, total: int, desc: str = "Processed prompts") -> None:
        self.bar: Any = None
        if callable(wanted):
            self.bar = wanted(total=total, desc=desc)
        elif wanted:
            try:
                from tqdm.auto import tqdm  # type: ignore[import-untyped, unused-ignore]
            except ImportError:
                self.bar = PlainBar(total, desc)
            else:
                self.bar = tqdm(total=total, desc=desc, dynamic_ncols=True)

    def __enter__(self) -> Progress:
        return self

    def step(self) -> None:
        if self.bar is not None:
            self.bar.update(1)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.bar is not None:
            self.bar.close()
