"""Re-export under the import path of vLLM."""

from .calls import Prompt as PromptType
from .calls import TextPrompt, TokensPrompt

__all__ = ["PromptType", "TextPrompt", "TokensPrompt"]
