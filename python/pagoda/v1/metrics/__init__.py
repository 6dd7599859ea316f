"""By the names under which vLLM has them."""
