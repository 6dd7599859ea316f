"""By the name under which vLLM has it."""

from .argparse_utils import FlexibleArgumentParser

__all__ = ["FlexibleArgumentParser"]
