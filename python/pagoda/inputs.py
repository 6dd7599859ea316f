"""By the name under which vLLM has it."""
from .calls import Prompt as PromptType, TextPrompt, TokensPrompt

__all__ = ["PromptType", "TextPrompt", "TokensPrompt"]
