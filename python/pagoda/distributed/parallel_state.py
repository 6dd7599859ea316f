"""Re-exports under the import paths of vLLM."""

from . import cleanup_dist_env_and_memory, destroy_distributed_environment, destroy_model_parallel

__all__ = ["cleanup_dist_env_and_memory", "destroy_distributed_environment", "destroy_model_parallel"]
