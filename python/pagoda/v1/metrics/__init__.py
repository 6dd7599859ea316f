"""Re-exports under the import paths of vLLM."""
