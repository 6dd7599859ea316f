#pragma once
// VectorPrompts: the texts of a call for vectors -> one request of the engine each. Between the fields of a
// protocol, which are its own business, and the engine. Knows lengths, truncation, pairs; not what the answer
// looks like (vector_writer.h). Bounded: prompts, tokens and bytes of one call. Errors: invalid_argument with
// the param() that was passed in. Threads: any.
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

inline constexpr std::size_t kMaxVectorPrompts = 2048;  // prompts of one call, as OpenAI allows

// ok: the model makes vectors, of this kind.
Status check_makes_vectors(const ApiContext& context);
Status check_makes_vectors(const ApiContext& context, WorkKind kind);

struct VectorWishes {
  PoolingSpec pooling;
  bool add_special_tokens = true;
  std::int64_t keep_tokens = 0;  // a longer prompt is cut to so many; 0: it is refused
  std::int32_t priority = 0;
  std::string cache_salt;
};
// The model's defaults for a call.
VectorWishes default_wishes(const ApiContext& context);

class VectorPrompts {
 public:
  VectorPrompts(const ApiContext& context, VectorWishes wishes)
      : context_(context), wishes_(std::move(wishes)) {}

  Status add_text(std::string_view text, const std::string& path);
  Status add_ids(const boost::json::array& ids, const std::string& path);
  // A query and a document, as the model wants to see them.
  Status add_pair(std::string_view first, std::string_view second, const std::string& path);
  // A text, a list of token ids, or a list of either.
  void add_field(FieldReader& fields, std::string_view name, bool with_ids);

  std::vector<Request> take() { return std::move(requests_); }
  std::size_t size() const { return requests_.size(); }

 private:
  Status add(std::vector<TokenId> ids, std::int32_t second, const std::string& path);
  Result<std::vector<TokenId>> encode(std::string_view text, const std::string& path);
  bool writes_pairs() const;  // whether the chat template has places for a query and a document

  const ApiContext& context_;
  VectorWishes wishes_;
  std::vector<Request> requests_;
  std::size_t num_tokens_ = 0, num_bytes_ = 0;
};

}  // namespace pagoda
