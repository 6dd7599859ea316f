// MiniCPM 1, 2 and 4: Llama with scales of the embedding, of each sublayer's output, and of the logits.
#include <cmath>

#include "models/reading.h"

namespace pagoda::minicpm {

// The scales depend on the depth, and on the width of the model that hyperparameters were tuned on.
void read_minicpm(Hyperparameters& h, ModelInfo& model) {
  model.decoder.embedding_scale = h.number("scale_emb", 1);
  scale_residual(h.number("scale_depth", 1) / std::sqrt(static_cast<float>(model.decoder.num_layers())),
                 model.decoder);
  model.decoder.logit_scale = h.number("dim_model_base", 1) / static_cast<float>(model.decoder.hidden_size);
  h.only("sparse_config", nullptr);  // sparse attention to blocks of the context
}

// Old files omit the scales, which are the first models'.
void read_gguf(Hyperparameters& h, ModelInfo& model) {
  model.decoder.embedding_scale = h.number("embedding_scale", 12.0f);
  scale_residual(h.number("residual_scale", 1.4f / std::sqrt(static_cast<float>(model.decoder.num_layers()))),
                 model.decoder);
  model.decoder.logit_scale =
      1 / h.number("logit_scale", static_cast<float>(model.decoder.hidden_size) / 256.0f);
}

extern const Family family = {
    .configs = {{"MiniCPMForCausalLM", "minicpm",
                 R"({"intermediate_size":11008,"rms_norm_eps":1e-6,"bos_token_id":1,"eos_token_id":2,
                     "tie_word_embeddings":true})",
                 read_minicpm}},
    .ggufs = {{"minicpm", {.interleaved_rows = true}, read_gguf}},
    .row = {.name = "MiniCPM 1, 2, 4: 0.5B to 8B",
            .differs = "three scales, longrope",
            .checked = "transformers' Granite on the same numbers",
            .size = "4 8B",
            .config = R"({"model_type":"minicpm","num_key_value_heads":2})"}};

}  // namespace pagoda::minicpm
