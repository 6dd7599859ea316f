"""Re-exports under the import paths of vLLM. Each engine owns its memory, so there is no process-wide state to clean
up."""

import gc


def destroy_model_parallel() -> None:
    """No-op: ranks end with their engine."""


def destroy_distributed_environment() -> None:
    """No-op: ranks end with their engine."""


def cleanup_dist_env_and_memory(shutdown_ray: bool = False) -> None:
    """Collects unreferenced engines, so that their memory is released now."""
    gc.collect()


__all__ = ["cleanup_dist_env_and_memory", "destroy_distributed_environment", "destroy_model_parallel"]
