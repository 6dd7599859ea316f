"""Re-export under the import path of vLLM."""

from .argparse_utils import FlexibleArgumentParser

__all__ = ["FlexibleArgumentParser"]
