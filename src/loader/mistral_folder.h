#pragma once
// A model in Mistral's own form (params.json, consolidated.safetensors) as the Hugging Face folder of the
// same model: fields, names of tensors and the order of their rows, so that nothing behind the loader knows
// of it. Not the tokenizer (tekken.json), which is tokenizer/'s. Source: mistral-inference's args.py,
// transformer.py and rope.py; vLLM's transformers_utils/configs/mistral.py; transformers'
// convert_mistral_weights_to_hf.py. Threads: any.
#include <string>
#include <string_view>

#include "base/status.h"
#include "loader/quantized_tensors.h"

namespace pagoda {

inline constexpr std::string_view kMistralConfig = "params.json";

// The config.json of the model. corrupt_data: not such a file; unimplemented: a part that the families of
// such folders do not have (latent attention, shared experts, Mamba).
Result<std::string> config_of_mistral_params(std::string_view params);

// Hugging Face's name for a tensor of the language model; a name of anything else as it is.
std::string hugging_face_name(std::string_view name);

// The tensors under these names. corrupt_data: two have one name.
Result<StoredTensors> with_hugging_face_names(const StoredTensors& stored);

// Queries and keys, whose rows lie otherwise: those of each head alternate between its halves. `config`: the
// model's config.json.
AlternatingRows alternating_rows(std::string_view config, const StoredTensors& renamed);

}  // namespace pagoda
