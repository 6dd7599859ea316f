#include "api/openai/prefix_parser.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "api/field_reader.h"
#include "api/json.h"
#include "api/openai/chat_messages.h"
#include "api/prompt_limits.h"
#include "api/tool_fields.h"
#include "base/strings.h"

namespace pagoda {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxPrefixName = 256, kMaxPrefixes = 1024;
constexpr std::size_t kMaxIds = std::size_t{1} << 24;
constexpr std::string_view kSources[] = {"text", "prompt", "token_ids", "messages"};

std::vector<TokenId> encode_text(FieldReader& fields, std::string_view source, const ApiContext& context) {
  const std::optional<std::string> text = fields.string(source, kAnyLength);
  EncodeOptions options;
  options.add_special_tokens = fields.boolean("add_special_tokens").value_or(true);
  if (text && text->empty()) fields.fail(source, "must not be empty");
  if (!fields.ok()) return {};
  if (exceeds_byte_bound(context, text->size())) {
    fields.fail(context_length_exceeded(context, fields.path_of(source), "The prefix is longer than that."));
    return {};
  }
  Result<std::vector<TokenId>> ids = context.tokenizer->encode(*text, options);
  if (ids) return *std::move(ids);
  fields.fail(source, "cannot be tokenized");
  return {};
}

// A prefix is followed by the next message, so the template must not open the assistant's turn.
std::vector<TokenId> encode_messages(FieldReader& fields, const json::object& object, const std::string& path,
                                     const ApiContext& context) {
  json::object chat = object;
  if (!chat.contains("add_generation_prompt")) chat["add_generation_prompt"] = false;
  FieldReader inner(chat, path);
  std::vector<TokenId> ids = read_chat_prompt(inner, context).token_ids;
  if (!inner.ok()) fields.fail(inner.status());
  return ids;
}

Result<PrefixSpec> parse_prefix_object(const json::object& object, const std::string& path,
                                       const ApiContext& context) {
  FieldReader fields(object, path);
  PrefixSpec prefix;
  prefix.name = fields.string("name", kMaxPrefixName).value_or("");
  if (prefix.name.empty()) fields.fail("name", "is required");
  for (const std::string_view source : kSources) {
    if (!fields.has(source)) continue;
    if (!prefix.source.empty()) fields.fail(source, concat("cannot be combined with '", prefix.source, "'"));
    prefix.source = source;
  }
  if (prefix.source.empty())
    fields.fail("text", "is required, or one of 'prompt', 'token_ids' and 'messages'");
  if (!fields.ok()) return fields.status();

  const json::value& given = *fields.raw(prefix.source);
  if (prefix.source == "messages") {
    prefix.token_ids = encode_messages(fields, object, path, context);
  } else if (prefix.source == "token_ids" || (prefix.source == "prompt" && given.is_array())) {
    prefix.token_ids =
        fields.token_ids(prefix.source, kMaxIds, context.vocab_size).value_or(std::vector<TokenId>{});
  } else {
    prefix.token_ids = encode_text(fields, prefix.source, context);
  }
  if (fields.ok() && prefix.token_ids.empty()) fields.fail(prefix.source, "must have at least one token");
  prefix.source = fields.path_of(prefix.source);
  if (!fields.ok()) return fields.status();
  return prefix;
}

}  // namespace

Result<PrefixSpec> parse_prefix(std::string_view body, const ApiContext& context) {
  const Result<json::value> value = parse_json_body(body);
  if (!value) return value.error();
  return parse_prefix_object(value->as_object(), {}, context);
}

Result<std::vector<PrefixSpec>> parse_prefix_file(std::string_view text, const ApiContext& context) {
  const Result<json::value> value = parse_json(text);
  if (!value) return value.error();
  std::vector<PrefixSpec> prefixes;
  if (value->is_object()) {
    Result<PrefixSpec> prefix = parse_prefix_object(value->as_object(), {}, context);
    if (!prefix) return prefix.error();
    prefixes.push_back(*std::move(prefix));
    return prefixes;
  }
  if (!value->is_array()) return invalid_argument("The file must be a JSON list of objects.");
  const json::array& list = value->as_array();
  if (list.size() > kMaxPrefixes)
    return invalid_argument(concat("There can be at most ", kMaxPrefixes, " prefixes."));
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (!list[i].is_object()) return invalid_argument(concat("'", i, "' must be an object."));
    Result<PrefixSpec> prefix = parse_prefix_object(list[i].as_object(), concat(i), context);
    if (!prefix) return prefix.error();
    const bool twice =
        std::ranges::any_of(prefixes, [&](const PrefixSpec& other) { return other.name == prefix->name; });
    if (twice)
      return invalid_argument(concat("'", i, ".name' is given twice.")).with_param(concat(i, ".name"));
    prefixes.push_back(*std::move(prefix));
  }
  return prefixes;
}

Status rename_param(Status status, const PrefixSpec& prefix) {
  if (status.param() != "prompt") return status;
  return std::move(status).with_param(prefix.source);
}

}  // namespace pagoda
