"""vLLM's names for adapters that requests choose."""
