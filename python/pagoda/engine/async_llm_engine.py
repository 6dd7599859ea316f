"""Re-export under the import path of vLLM."""

from ..async_llm import AsyncLLMEngine

__all__ = ["AsyncLLMEngine"]
