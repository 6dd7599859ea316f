// BERT: learned positions, a norm of the embedding and after each sublayer, biases everywhere.
#include "models/reading.h"

namespace pagoda::bert {

extern const Family family = {
    .configs = {{"BertForMaskedLM", "bert",
                 R"({"vocab_size":30522,"hidden_size":768,"intermediate_size":3072,"num_hidden_layers":12,
                     "num_attention_heads":12,"max_position_embeddings":512,"layer_norm_eps":1e-12,
                     "hidden_act":"gelu","pad_token_id":0})",
                 [](Hyperparameters& h, ModelInfo& model) { read_bert(h, model); }, Reads::all}},
    .ggufs = {{"bert",
               {.activation = "gelu", .layer_norm = true, .rotates = false, .encoder = true},
               read_token_types}},
    .shape = bert_shape,
    .names = bert_names,
    .gguf_names = encoder_gguf_names,
    .row = {.name = "BERT: bge, MiniLM, mxbai, arctic-embed, ms-marco cross-encoders",
            .differs = "learned positions, token types, norms after each sublayer",
            .checked = "transformers: first, mean, last; Dense modules; pairs through a head",
            .vectors = true}};

}  // namespace pagoda::bert
