"""Re-export under the import path of vLLM."""

from ..engine_args import AsyncEngineArgs, EngineArgs

__all__ = ["AsyncEngineArgs", "EngineArgs"]
