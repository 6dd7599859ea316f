"""By the name under which vLLM has it."""

from ..llm import LLM

__all__ = ["LLM"]
