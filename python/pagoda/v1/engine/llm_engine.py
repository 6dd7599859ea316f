"""By the name under which vLLM has it."""

from ...llm_engine import LLMEngine

__all__ = ["LLMEngine"]
