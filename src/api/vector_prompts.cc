#include "api/vector_prompts.h"

#include <algorithm>

#include "api/chat_call.h"
#include "api/chat_prompt_tokens.h"
#include "api/prompt_limits.h"
#include "base/check.h"
#include "base/ends.h"
#include "base/strings.h"

namespace pagoda {
namespace {

namespace json = boost::json;

// The query is repeated in each pair, so a small body could ask for gigabytes.
constexpr std::size_t kMaxCallTokens = std::size_t{1} << 22, kMaxPairBytes = std::size_t{1} << 24;

Status too_much(const std::string& path, std::string_view what) {
  return invalid_argument(
             concat("The texts of this request have too many ", what, " in total; send fewer of them."))
      .with_param(path);
}

}  // namespace

Status check_makes_vectors(const ApiContext& context) {
  if (context.vectors) return ok_status();
  return invalid_argument(
             "This model generates text and returns no vectors; start the server with --runner pooling for "
             "them.")
      .with_param("model");
}

Status check_makes_vectors(const ApiContext& context, WorkKind kind) {
  PAGODA_RETURN_IF_ERROR(check_makes_vectors(context));
  if (context.vectors->kind == kind) return ok_status();
  return invalid_argument(kind == WorkKind::embed ? "This model classifies and returns no embeddings."
                                                  : "This model returns embeddings and does not classify.")
      .with_param("model");
}

VectorWishes default_wishes(const ApiContext& context) {
  CHECK(context.vectors);
  VectorWishes wishes;
  wishes.pooling = context.vectors->pooling;
  wishes.pooling.dimensions = context.vectors->size;
  return wishes;
}

Status VectorPrompts::add(std::vector<TokenId> ids, std::int32_t second, const std::string& path) {
  if (ids.empty()) return invalid_argument(concat("'", path, "' must not be empty.")).with_param(path);
  if (std::cmp_greater(ids.size(), context_.max_model_len))
    return context_length_exceeded(context_, path,
                                   concat("Your text has ", ids.size(), " tokens; please shorten it."));
  if (requests_.size() == kMaxVectorPrompts)
    return invalid_argument(concat("At most ", kMaxVectorPrompts, " texts can be sent in one request."))
        .with_param(path);
  num_tokens_ += ids.size();
  if (num_tokens_ > kMaxCallTokens) return too_much(path, "tokens");
  Request& request = requests_.emplace_back();
  request.prompt_token_ids = std::move(ids);
  request.sampling.max_tokens = 0;
  request.work = {.kind = context_.vectors->kind,
                  .pooling = wishes_.pooling,
                  .whole_prompt = context_.vectors->whole_prompt,
                  .second_text = context_.vectors->token_types ? second : 0};
  request.priority = wishes_.priority;
  request.cache_salt = wishes_.cache_salt;
  return ok_status();
}

// A truncated prompt keeps its beginning and the trailing special tokens.
Result<std::vector<TokenId>> VectorPrompts::encode(std::string_view text, const std::string& path) {
  const auto keep = static_cast<std::size_t>(wishes_.keep_tokens);
  // Text that would be truncated anyway is not tokenized. `end` is an upper bound: no token is longer than
  // longest_token_bytes.
  if (keep > 0 && exceeds_byte_bound(context_, text.size())) {
    std::size_t end = context_.longest_token_bytes * static_cast<std::size_t>(context_.max_model_len);
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
    text = text.substr(0, end);
  }
  EncodeOptions options;
  options.add_special_tokens = wishes_.add_special_tokens;
  Result<std::vector<TokenId>> ids = text_prompt_tokens(context_, path, text, options);
  if (!ids || keep == 0 || ids->size() <= keep) return ids;
  options.add_special_tokens = false;
  const Result<std::vector<TokenId>> plain = text_prompt_tokens(context_, path, text, options);
  if (!plain) return plain.error();
  std::size_t before = 0;
  const std::size_t around = ids->size() - std::min(ids->size(), plain->size());
  while (before < around &&
         !std::equal(plain->begin(), plain->end(), ids->begin() + static_cast<std::ptrdiff_t>(before)))
    ++before;
  const std::size_t after = std::min(around - before, keep);
  ids->erase(ids->begin() + static_cast<std::ptrdiff_t>(keep - after),
             ids->end() - static_cast<std::ptrdiff_t>(after));
  return ids;
}

Status VectorPrompts::add_text(std::string_view text, const std::string& path) {
  Result<std::vector<TokenId>> ids = encode(text, path);
  if (!ids) return ids.error();
  return add(*std::move(ids), 0, path);
}

Status VectorPrompts::add_ids(const json::array& list, const std::string& path) {
  Result<std::vector<TokenId>> ids = read_token_ids(list, path, context_.vocab_size);
  if (!ids) return ids.error();
  if (const auto keep = static_cast<std::size_t>(wishes_.keep_tokens); keep > 0 && ids->size() > keep)
    ids->resize(keep);
  return add(*std::move(ids), 0, path);
}

bool VectorPrompts::writes_pairs() const {
  if (context_.chat_template == nullptr || context_.vectors->whole_prompt) return false;
  const std::string_view source = context_.chat_template->source();
  const auto names = [source](std::string_view role) {
    return source.find(concat('"', role, '"')) != std::string_view::npos ||
           source.find(concat('\'', role, '\'')) != std::string_view::npos;
  };
  return names("query") && names("document");
}

Status VectorPrompts::add_pair(std::string_view first, std::string_view second, const std::string& path) {
  num_bytes_ += first.size() + second.size();
  if (num_bytes_ > kMaxPairBytes) return too_much(path, "bytes");
  if (exceeds_byte_bound(context_, first.size() + second.size()) && wishes_.keep_tokens == 0)
    return context_length_exceeded(context_, path, "Your texts are longer than that; please shorten them.");
  if (writes_pairs()) {
    Conversation conversation;
    conversation.messages.push_back({.role = "query", .content = Content::of(std::string(first))});
    conversation.messages.push_back({.role = "document", .content = Content::of(std::string(second))});
    Result<std::vector<TokenId>> ids = chat_prompt_tokens(std::move(conversation), context_);
    if (!ids) return ids.error();
    return add(*std::move(ids), 0, path);
  }
  // Language models take a pair as plain text.
  if (!context_.vectors->whole_prompt) return add_text(concat(first, second), path);
  Result<EncodedPair> pair = context_.tokenizer->encode_pair(first, second);
  if (!pair) return invalid_argument(concat("'", path, "' cannot be tokenized.")).with_param(path);
  // The last token is kept: it ends the pair.
  if (const auto keep = static_cast<std::size_t>(wishes_.keep_tokens); keep > 0 && pair->ids.size() > keep)
    pair->ids.erase(pair->ids.begin() + static_cast<std::ptrdiff_t>(keep - 1), pair->ids.end() - 1);
  return add(std::move(pair->ids), pair->second, path);
}

void VectorPrompts::add_field(FieldReader& fields, std::string_view name, bool with_ids) {
  const json::value* value = fields.raw(name, {"string", "array"});
  const std::string path = fields.path_of(name);
  const auto keep = [&fields](Status status) {
    if (!status.ok()) fields.fail(std::move(status));
  };
  if (value == nullptr) return fields.fail(name, "is required");
  if (value->is_string()) return keep(add_text(std::string_view(value->get_string()), path));
  const json::array* list = value->if_array();
  if (list == nullptr) return fields.fail(name, "must be a string or a list");
  const json::value* first = first_of(*list);
  if (first == nullptr) return fields.fail(name, "must not be empty");
  if (with_ids && first->is_number()) return keep(add_ids(*list, path));
  if (list->size() > kMaxVectorPrompts)
    return fields.fail(name, concat("must have at most ", kMaxVectorPrompts, " entries"));
  for (std::size_t i = 0; i < list->size() && fields.ok(); ++i) {
    const json::value& entry = (*list)[i];
    const std::string entry_path = concat(path, ".", i);
    if (entry.is_string())
      keep(add_text(std::string_view(entry.get_string()), entry_path));
    else if (with_ids && entry.is_array())
      keep(add_ids(entry.get_array(), entry_path));
    else
      fields.fail(concat(name, ".", i),
                  with_ids ? "must be a string or a list of token ids" : "must be a string");
  }
}

}  // namespace pagoda
