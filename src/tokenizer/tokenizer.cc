#include "tokenizer/tokenizer.h"

namespace pagoda {

Result<EncodedPair> Tokenizer::encode_pair(std::string_view first, std::string_view second) const {
  Result<std::vector<TokenId>> ids = encode(first);
  if (!ids) return ids.error();
  const Result<std::vector<TokenId>> more = encode(second);
  if (!more) return more.error();
  ids->insert(ids->end(), more->begin(), more->end());
  return EncodedPair{.ids = *std::move(ids)};
}

}  // namespace pagoda
