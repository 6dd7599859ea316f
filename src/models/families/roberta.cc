// RoBERTa, XLM-R and CamemBERT: BERT whose positions begin behind the padding's. As GGUF it is a `bert`.
#include <algorithm>

#include "models/reading.h"

namespace pagoda {
namespace {

// Positions are counted from behind the padding's, whose row is its token's id.
void read_roberta(Hyperparameters& h, ModelInfo& model) {
  read_bert_like(h, model.type == "roberta" ? 50265 : 30522, 1, model);
  model.eos_token_ids = {2};
  model.decoder.position_offset = std::clamp(model.pad_token_id, 0, 1 << 20) + 1;
  model.decoder.max_positions -= model.decoder.position_offset;
}

}  // namespace

PAGODA_FAMILY(roberta) = {
    .architecture = "bert",
    .configs = {{"RobertaForMaskedLM", "roberta", {}, read_roberta, Reads::all},
                {"XLMRobertaForMaskedLM", "xlm-roberta", {}, read_roberta, Reads::all},
                {"CamembertForMaskedLM", "camembert", {}, read_roberta, Reads::all}},
    .shape = bert_shape,
    .names = bert_names,
    .row = {.name = "RoBERTa, XLM-R, CamemBERT: e5-multilingual, bge-m3 (dense), bge-reranker-v2-m3",
            .differs = "BERT with positions from behind the padding's; as GGUF it is a `bert`",
            .vectors = true}};

}  // namespace pagoda
