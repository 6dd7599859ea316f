"""By the name under which vLLM has it."""

from .calls import Prompt as PromptType
from .calls import TextPrompt, TokensPrompt

__all__ = ["PromptType", "TextPrompt", "TokensPrompt"]
