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
  if (own_names != nullptr) return own_names(format);
  WeightNames names = family->names(format);
  const auto change = format == ModelFormat::gguf ? family->gguf_names : family->folder_names;
  if (change != nullptr) change(names);
  if (family->folder_experts && format == ModelFormat::hugging_face)
    names.experts = hf_expert_names(*family->folder_experts);
  return names;
}

std::string describe_unknown_options(const ModelInfo& model) {
  if (model.unknown_options.empty()) return "";
  return concat("options of the model that are not known were left aside: ", list_of(model.unknown_options));
}

std::string describe_unknown_ends(const ModelInfo& model) {
  if (model.unknown_eos_token_ids.empty()) return "";
  return concat("eos_token_id is outside the vocabulary of ", model.decoder.vocab_size,
                " tokens and ends no answer: ", list_of(model.unknown_eos_token_ids));
}

}  // namespace pagoda
