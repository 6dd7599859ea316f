// BERT: learned positions, a norm of the embedding and behind each half, biases everywhere.
#include <algorithm>

#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

void read_bert(Hyperparameters& h, ModelConfig& config) { read_bert_like(h, config, 30522, 0); }

// The file has one row for each type of token.
void read_gguf(Hyperparameters& h, ModelConfig& config) {
  read_gguf_common(h, {.activation = "gelu", .layer_norm = true, .rotates = false, .encoder = true}, config);
  for (const GgufTensor& tensor : h.gguf()->tensor_list())
    if (tensor.name == "token_types.weight" && tensor.shape.size() == 2)
      config.token_types =
          static_cast<std::int32_t>(std::clamp<std::int64_t>(tensor.shape.front(), 0, 1 << 16));
  h.without_effect({"token_type_count", "classifier.output_labels"});
}

}  // namespace

PAGODA_FAMILY(bert) = {
    .architecture = "bert",
    .configs = {{"BertForMaskedLM", "BertModel", "bert", read_bert}},
    .ggufs = {{"bert", read_gguf}},
    .describe = bert_description,
    .names = bert_names,
    .row = {.name = "BERT: bge, MiniLM, mxbai, arctic-embed, ms-marco cross-encoders",
            .differs = "learned positions, token types, norms behind each half",
            .checked = "transformers: first, mean, last; Dense modules; pairs through a head",
            .vectors = true}};

}  // namespace pagoda
