#include "cli/assembly/answer_ends.h"

#include <algorithm>

#include "base/strings.h"
#include "loader/printable.h"

namespace pagoda {

std::vector<TokenId> answer_ends(const ModelInfo& model, const Tokenizer* tokenizer) {
  std::vector<TokenId> ends;
  if (tokenizer != nullptr && tokenizer->eos() >= 0 && tokenizer->eos() < model.decoder.vocab_size)
    ends.push_back(tokenizer->eos());
  for (const TokenId id : model.eos_token_ids)
    if (std::ranges::find(ends, id) == ends.end()) ends.push_back(id);
  return ends;
}

std::string describe_ends(std::span<const TokenId> ends, const Tokenizer& tokenizer) {
  if (ends.empty())
    return "end-of-turn tokens: none in the model's files; answers end at max_tokens or a stop string";
  std::string list;
  for (const TokenId id : ends)
    list += concat(list.empty() ? "" : ", ", id, " ", printable(tokenizer.token_string(id)));
  return concat("end-of-turn tokens: ", list);
}

}  // namespace pagoda
