"""By the name under which vLLM has it."""

from .pooling import PoolingParams

__all__ = ["PoolingParams"]
