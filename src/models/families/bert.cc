// BERT: learned positions, a norm of the embedding and behind each half, biases everywhere.
#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

void read_bert(Hyperparameters& h, ModelInfo& model) { read_bert_like(h, 30522, 0, model); }

void read_gguf(Hyperparameters& h, ModelInfo& model) {
  read_gguf_common(h, {.activation = "gelu", .layer_norm = true, .rotates = false, .encoder = true}, model);
  read_token_types(h, model);
}

}  // namespace

PAGODA_FAMILY(bert) = {
    .architecture = "bert",
    .configs = {{"BertForMaskedLM", "BertModel", "bert", read_bert}},
    .ggufs = {{"bert", read_gguf}},
    .shape = bert_shape,
    .names = bert_names,
    .row = {.name = "BERT: bge, MiniLM, mxbai, arctic-embed, ms-marco cross-encoders",
            .differs = "learned positions, token types, norms behind each half",
            .checked = "transformers: first, mean, last; Dense modules; pairs through a head",
            .vectors = true}};

}  // namespace pagoda
