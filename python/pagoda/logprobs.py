"""Re-export under the import path of vLLM."""

from .outputs import Logprob

__all__ = ["Logprob"]
