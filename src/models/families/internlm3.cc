// InternLM 3: Llama with other defaults.
#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

void read_internlm3(Hyperparameters& h, ModelInfo& model) {
  read_common(h,
              {.vocab_size = 128512,
               .intermediate_size = 10240,
               .num_layers = 48,
               .num_kv_heads = 2,
               .max_positions = 32768,
               .bos = 1,
               .eos = 2,
               .pad = 2,
               .head_size = 128},
              model);
  for (const std::string_view biased : {"qkv_bias", "bias"}) h.find(biased);  // as the tensors say
}

}  // namespace

PAGODA_FAMILY(internlm3) = {
    .architecture = "llama",
    .configs = {{"InternLM3ForCausalLM", "InternLM3Model", "internlm3", read_internlm3},
                {"LlamaForCausalLM", "LlamaModel", "internlm3", read_internlm3}},
    .names = llama_names,
    .row = {.name = "InternLM 3 8B",
            .differs = "–; as GGUF it is a `llama`",
            .checked = "transformers",
            .size = "8B",
            .config = R"({"model_type":"internlm3"})"}};

}  // namespace pagoda
