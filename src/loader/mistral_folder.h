#pragma once
// Converts a model in Mistral's own form (params.json, consolidated.safetensors) to the Hugging Face folder
// of the same model: fields, tensor names and row order, so that no code outside the loader knows of it.
// tokenizer/ handles tekken.json.
// Source: mistral-inference's args.py, transformer.py and rope.py; vLLM's
// transformers_utils/configs/mistral.py; transformers' convert_mistral_weights_to_hf.py. Threads: any.
#include <string>
#include <string_view>

#include "base/status.h"
#include "loader/quantized_tensors.h"

namespace pagoda {

inline constexpr std::string_view kMistralConfig = "params.json";

// Returns the model's config.json. corrupt_data: not such a file; unimplemented: a part that the families of
// such folders do not have (latent attention, shared experts, Mamba).
Result<std::string> config_of_mistral_params(std::string_view params);

// Returns Hugging Face's name for a tensor of the language model; other names unchanged.
std::string hugging_face_name(std::string_view name);

// Returns the tensors under these names. corrupt_data: two tensors get the same name.
Result<StoredTensors> with_hugging_face_names(const StoredTensors& stored);

// Returns the queries and keys whose heads have rows alternating between the head's halves. `config`: the
// model's config.json.
AlternatingRows alternating_rows(std::string_view config, const StoredTensors& renamed);

}  // namespace pagoda
