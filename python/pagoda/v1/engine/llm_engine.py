"""Re-export under the import path of vLLM."""

from ...llm_engine import LLMEngine

__all__ = ["LLMEngine"]
