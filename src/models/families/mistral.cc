// Mistral: Llama with a sliding window in all layers.
#include "models/reading.h"

namespace pagoda::mistral {

// Windows that differ between layers do not occur in this family.
void read_mistral(Hyperparameters& h, ModelInfo& model) {
  const std::int32_t window = read_window(h);
  use_windows(h, window, {}, model);
  if (const json::value* types = h.find("layer_types")) {
    const std::string_view all = window > 0 ? "sliding_attention" : "full_attention";
    const json::array* list = types->if_array();
    if (list == nullptr) return h.fail("layer_types", "a list of strings");
    for (const json::value& type : *list)
      if (!type.is_string() || std::string_view(type.get_string()) != all)
        h.refuse("config.json: 'layer_types' that differ between layers are not supported for Mistral");
  }
}

extern const Family family = {
    .architecture = "mistral",
    .configs = {{"MistralForCausalLM", "mistral",
                 R"({"intermediate_size":14336,"num_key_value_heads":8,"max_position_embeddings":131072,
                     "rms_norm_eps":1e-6,"bos_token_id":1,"eos_token_id":2,"sliding_window":4096})",
                 read_mistral}},
    .wrappers = {{"Idefics2ForConditionalGeneration", "idefics2", "mistral"},
                 {"Mistral3ForConditionalGeneration", "mistral3", "mistral"}},
    .row = {.name = "Mistral 7B, Nemo, Small 1 to 3",
            .differs = "windows; as GGUF it is a `llama`",
            .size = "7B",
            .config = R"({"model_type":"mistral","sliding_window":null})"}};

}  // namespace pagoda::mistral
