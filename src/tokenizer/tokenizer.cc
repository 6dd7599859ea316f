#include "tokenizer/tokenizer.h"

#include "base/assign_or_return.h"

namespace pagoda {

Result<EncodedPair> Tokenizer::encode_pair(std::string_view first, std::string_view second) const {
  PAGODA_ASSIGN_OR_RETURN(std::vector<TokenId> ids, encode(first));
  PAGODA_ASSIGN_OR_RETURN(const std::vector<TokenId> more, encode(second));
  ids.insert(ids.end(), more.begin(), more.end());
  return EncodedPair{.ids = std::move(ids)};
}

}  // namespace pagoda
