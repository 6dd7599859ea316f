#pragma once
// VectorPrompts: the texts of a call for vectors -> one engine request per text. It handles lengths,
// truncation and pairs; the protocol reads the fields, and vector_writer.h writes the answer. Prompts, tokens
// and bytes per call are bounded. Errors: invalid_argument with the `path` passed in as param(). Threads:
// any.
#include <boost/json/array.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "api/api_context.h"
#include "api/field_reader.h"
#include "base/status.h"
#include "request/request.h"

namespace pagoda {

inline constexpr std::size_t kMaxVectorPrompts = 2048;  // per call, as OpenAI allows

// Returns ok if the model produces vectors (of this kind).
Status check_makes_vectors(const ApiContext& context);
Status check_makes_vectors(const ApiContext& context, WorkKind kind);

struct VectorWishes {
  PoolingSpec pooling;
  bool add_special_tokens = true;
  std::int64_t keep_tokens = 0;  // truncates longer prompts; 0: refuses them
  std::int32_t priority = 0;
  std::string cache_salt;
};
// The model's default wishes.
VectorWishes default_wishes(const ApiContext& context);

class VectorPrompts {
 public:
  VectorPrompts(const ApiContext& context, VectorWishes wishes)
      : context_(context), wishes_(std::move(wishes)) {}

  Status add_text(std::string_view text, const std::string& path);
  Status add_ids(const boost::json::array& ids, const std::string& path);
  // Adds a query and a document, in the form that the model expects.
  Status add_pair(std::string_view first, std::string_view second, const std::string& path);
  // Adds the field `name`: a text, a list of token ids, or a list of either.
  void add_field(FieldReader& fields, std::string_view name, bool with_ids);

  std::vector<Request> take() { return std::move(requests_); }
  std::size_t size() const { return requests_.size(); }

 private:
  Status add(std::vector<TokenId> ids, std::int32_t second, const std::string& path);
  Result<std::vector<TokenId>> encode(std::string_view text, const std::string& path);
  bool writes_pairs() const;  // true if the chat template has places for a query and a document

  const ApiContext& context_;
  VectorWishes wishes_;
  std::vector<Request> requests_;
  std::size_t num_tokens_ = 0, num_bytes_ = 0;
};

}  // namespace pagoda
