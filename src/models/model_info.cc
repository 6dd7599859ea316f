#include "models/model_info.h"

#include "base/strings.h"
#include "models/family.h"

namespace pagoda {
namespace {

template <class Items>
std::string list_of(const Items& items) {
  std::string list;
  for (const auto& item : items) list += concat(list.empty() ? "" : ", ", item);
  return list;
}

}  // namespace

WeightNames ModelInfo::names(ModelFormat format) const {
  const bool gguf = format == ModelFormat::gguf;
  WeightNames names = gguf ? gguf_names() : llama_names();
  if (!gguf && family->folder_experts) names.experts = hf_expert_names(*family->folder_experts);
  const NameWeights own = gguf ? own_gguf_names : own_names;
  if (const NameWeights name = own != nullptr ? own : gguf ? family->gguf_names : family->names) name(names);
  return names;
}

std::string describe_unknown_options(const ModelInfo& model) {
  if (model.unknown_options.empty()) return "";
  return concat("unknown options of the model are ignored: ", list_of(model.unknown_options));
}

std::string describe_unknown_ends(const ModelInfo& model) {
  if (model.unknown_eos_token_ids.empty()) return "";
  return concat("eos_token_id is outside the vocabulary of ", model.decoder.vocab_size,
                " tokens and ends no answer: ", list_of(model.unknown_eos_token_ids));
}

}  // namespace pagoda
