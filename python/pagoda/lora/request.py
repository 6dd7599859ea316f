"""LoRARequest, as in vLLM: selects the adapter of a request."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(eq=False)
class LoRARequest:
    """Selects a LoRA adapter. Two objects with the same name mean the same adapter. `lora_int_id` is accepted for
    compatibility with vLLM; adapters are identified by name."""

    lora_name: str
    lora_int_id: int
    lora_path: str = ""
    base_model_name: str | None = None
    load_inplace: bool = False  # reload the adapter even if one of this name is already loaded

    def __post_init__(self) -> None:
        if self.lora_int_id < 1:
            raise ValueError(f"id must be > 0, got {self.lora_int_id}")
        if not self.lora_path:
            raise ValueError("lora_path cannot be empty")

    @property
    def adapter_id(self) -> int:
        return self.lora_int_id

    @property
    def name(self) -> str:
        return self.lora_name

    @property
    def path(self) -> str:
        return self.lora_path

    def __eq__(self, other: object) -> bool:
        return isinstance(other, self.__class__) and self.lora_name == other.lora_name

    def __hash__(self) -> int:
        return hash(self.lora_name)
