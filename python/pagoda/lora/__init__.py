"""LoRA adapters that requests select, under the import path of vLLM."""
