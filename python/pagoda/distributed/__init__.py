"""By the names under which vLLM has them. An engine's memory is its own: there is nothing of the process to clean
up."""

import gc


def destroy_model_parallel() -> None:
    """Nothing: ranks end with their engine."""


def destroy_distributed_environment() -> None:
    """Nothing: ranks end with their engine."""


def cleanup_dist_env_and_memory(shutdown_ray: bool = False) -> None:
    """Collects engines that nobody holds any more, so that their memory is free now."""
    gc.collect()


__all__ = ["cleanup_dist_env_and_memory", "destroy_distributed_environment", "destroy_model_parallel"]
