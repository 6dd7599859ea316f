// RoBERTa, XLM-R and CamemBERT: BERT whose positions start after the padding's. In GGUF they are `bert`.
#include <algorithm>

#include "models/reading.h"

namespace pagoda::roberta {

constexpr std::string_view kAbsent =
    R"({"vocab_size":30522,"hidden_size":768,"intermediate_size":3072,"num_hidden_layers":12,
        "num_attention_heads":12,"max_position_embeddings":512,"layer_norm_eps":1e-12,"hidden_act":"gelu",
        "eos_token_id":2,"pad_token_id":1})";

// Positions start after the padding's, whose row is the padding token's id.
void read_roberta(Hyperparameters& h, ModelInfo& model) {
  read_bert(h, model);
  model.decoder.position_offset = std::clamp(model.pad_token_id, 0, 1 << 20) + 1;
  model.decoder.max_positions -= model.decoder.position_offset;
}

extern const Family family = {
    .architecture = "bert",
    .configs = {{"RobertaForMaskedLM", "roberta",
                 R"({"vocab_size":50265,"hidden_size":768,"intermediate_size":3072,"num_hidden_layers":12,
                     "num_attention_heads":12,"max_position_embeddings":512,"layer_norm_eps":1e-12,
                     "hidden_act":"gelu","eos_token_id":2,"pad_token_id":1})",
                 read_roberta, Reads::all},
                {"XLMRobertaForMaskedLM", "xlm-roberta", kAbsent, read_roberta, Reads::all},
                {"CamembertForMaskedLM", "camembert", kAbsent, read_roberta, Reads::all}},
    .shape = bert_shape,
    .names = bert_names,
    .gguf_names = encoder_gguf_names,
    .row = {.name = "RoBERTa, XLM-R, CamemBERT: e5-multilingual, bge-m3 (dense), bge-reranker-v2-m3",
            .differs = "BERT with positions counted from the padding id; as GGUF it is a `bert`",
            .vectors = true}};

}  // namespace pagoda::roberta
