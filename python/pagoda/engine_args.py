"""Engine arguments by vLLM's names -> options of the engine, which are the flags of `pagoda serve` (docs/flags.md)."""

from __future__ import annotations

import json
from typing import Any

from .utils.argparse_utils import FlexibleArgumentParser


def options_of(arguments: dict[str, Any]) -> list[tuple[str, str]]:
    """None says nothing, a list several values, a dict JSON."""
    options: list[tuple[str, str]] = []
    for name, value in arguments.items():
        if value is None:
            continue
        for item in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(item, bool):
                text = "true" if item else "false"
            elif isinstance(item, dict):
                text = json.dumps(item)
            else:
                text = str(item)
            options.append((name, text))
    return options


class EngineArgs:
    """vLLM's EngineArgs and AsyncEngineArgs: a model and arguments by name."""

    def __init__(self, model: str = "", **arguments: Any) -> None:
        self.model = model
        self.arguments = arguments

    @staticmethod
    def add_cli_args(parser: FlexibleArgumentParser) -> FlexibleArgumentParser:
        """--model, and every flag of the engine; to a parser, or to a group of one."""
        parser.add_argument("--model", default="")
        getattr(parser, "parser", parser).takes_engine_args = True
        return parser

    @classmethod
    def from_cli_args(cls, args: Any) -> EngineArgs:
        """Of what parse_args() has given; flags of the script's own have to be taken out first."""
        return cls(**vars(args))


AsyncEngineArgs = EngineArgs
