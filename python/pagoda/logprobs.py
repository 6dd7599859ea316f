"""By the name under which vLLM has it."""

from .outputs import Logprob

__all__ = ["Logprob"]
