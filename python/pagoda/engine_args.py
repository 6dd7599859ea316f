"""Converts engine arguments with vLLM's names to engine options, which are the flags of `pagoda serve`
(docs/flags.md)."""

from __future__ import annotations

import json
from typing import Any

from .utils.argparse_utils import FlexibleArgumentParser


def options_of(arguments: dict[str, Any]) -> list[tuple[str, str]]:
    """Returns (name, value) pairs. An argument that is None is left out, a list gives one pair per item, and a dict is
    written as JSON."""
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
    """A model and its engine arguments, as vLLM's EngineArgs and AsyncEngineArgs."""

    def __init__(self, model: str = "", **arguments: Any) -> None:
        self.model = model
        self.arguments = arguments

    @staticmethod
    def add_cli_args(parser: FlexibleArgumentParser) -> FlexibleArgumentParser:
        """Adds --model and all engine flags to a parser or to an argument group."""
        parser.add_argument("--model", default="")
        getattr(parser, "parser", parser).takes_engine_args = True
        return parser

    @classmethod
    def from_cli_args(cls, args: Any) -> EngineArgs:
        """Builds the arguments from the result of parse_args(). Remove the script's own flags from `args` first."""
        return cls(**vars(args))


AsyncEngineArgs = EngineArgs
