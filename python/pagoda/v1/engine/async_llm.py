"""Re-export under the import path of vLLM."""

from ...async_llm import AsyncLLM

__all__ = ["AsyncLLM"]
