// BERT: learned positions, a norm of the embedding and behind each half, biases everywhere.
#include "models/reading.h"

namespace pagoda {

PAGODA_FAMILY(bert) = {
    .configs = {{"BertForMaskedLM",
                 "bert",
                 {},
                 [](Hyperparameters& h, ModelInfo& model) { read_bert_like(h, 30522, 0, model); },
                 Reads::all}},
    .ggufs = {{"bert",
               {.activation = "gelu", .layer_norm = true, .rotates = false, .encoder = true},
               read_token_types}},
    .shape = bert_shape,
    .names = bert_names,
    .row = {.name = "BERT: bge, MiniLM, mxbai, arctic-embed, ms-marco cross-encoders",
            .differs = "learned positions, token types, norms behind each half",
            .checked = "transformers: first, mean, last; Dense modules; pairs through a head",
            .vectors = true}};

}  // namespace pagoda
