"""By the name under which vLLM has it."""

from ...async_llm import AsyncLLM

__all__ = ["AsyncLLM"]
