"""Re-export under the import path of vLLM."""

from .pooling import PoolingParams

__all__ = ["PoolingParams"]
