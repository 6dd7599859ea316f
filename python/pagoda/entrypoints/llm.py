"""Re-export under the import path of vLLM."""

from ..llm import LLM

__all__ = ["LLM"]
