"""By the name under which vLLM has it."""

from ..async_llm import AsyncLLMEngine

__all__ = ["AsyncLLMEngine"]
