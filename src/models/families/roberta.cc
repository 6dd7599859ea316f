// RoBERTa, XLM-R and CamemBERT: BERT whose positions begin behind the padding's. As GGUF it is a `bert`.
#include <algorithm>

#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

// Positions are counted from behind the padding's, whose row is its token's id.
void read_roberta(Hyperparameters& h, ModelConfig& config) {
  read_bert_like(h, config, config.type == "roberta" ? 50265 : 30522, 1);
  config.eos_token_ids = {2};
  config.position_offset = std::clamp(config.pad_token_id, 0, 1 << 20) + 1;
  config.max_positions -= config.position_offset;
}

}  // namespace

PAGODA_FAMILY(roberta) = {
    .architecture = "bert",
    .configs = {{"RobertaForMaskedLM", "RobertaModel", "roberta", read_roberta},
                {"XLMRobertaForMaskedLM", "XLMRobertaModel", "xlm-roberta", read_roberta},
                {"CamembertForMaskedLM", "CamembertModel", "camembert", read_roberta}},
    .describe = bert_description,
    .names = bert_names,
    .row = {.name = "RoBERTa, XLM-R, CamemBERT: e5-multilingual, bge-m3 (dense), bge-reranker-v2-m3",
            .differs = "BERT with positions from behind the padding's; as GGUF it is a `bert`",
            .checked = "transformers",
            .vectors = true}};

}  // namespace pagoda
