"""The part of vllm.utils.argparse_utils that vLLM's own scripts use: a command-line parser that accepts engine
arguments."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any


def value_of(text: str) -> bool | str:
    return {"true": True, "false": False}.get(text.lower(), text)


class FlexibleArgumentParser(argparse.ArgumentParser):
    """Treats --max_model_len as --max-model-len. After EngineArgs.add_cli_args(), flags that are unknown to the parser
    are passed to the engine, which reports an error if it does not know them either."""

    takes_engine_args = False

    def add_argument_group(self, *args: Any, **more: Any) -> Any:
        """Returns a group to which engine arguments may be added; the parser handles them."""
        group: Any = super().add_argument_group(*args, **more)
        group.parser = self
        return group

    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        import sys

        words = [self._dashed(word) for word in (sys.argv[1:] if args is None else args)]
        if not self.takes_engine_args:
            return super().parse_args(words, namespace)
        known, rest = self.parse_known_args(words, namespace)
        while rest:
            word = rest.pop(0)
            if not word.startswith("--"):
                self.error(f"'{word}' belongs to no flag")
            name, equals, text = word[2:].partition("=")
            if not equals and rest and not rest[0].startswith("--"):
                text, equals = rest.pop(0), "="
            off = name.startswith("no-") and not equals
            setattr(
                known,
                name.removeprefix("no-" if off else "").replace("-", "_"),
                not off if not equals else value_of(text),
            )
        return known

    @staticmethod
    def _dashed(word: str) -> str:
        name, equals, text = word.partition("=")
        return name.replace("_", "-") + equals + text if word.startswith("--") else word
