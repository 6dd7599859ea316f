#include "api/openai/text_endpoints.h"

#include <boost/json/array.hpp>

#include "api/field_reader.h"
#include "api/json.h"
#include "api/openai/chat_messages.h"
#include "api/openai/request_parser.h"
#include "api/prompt_limits.h"
#include "api/time_text.h"
#include "api/tool_fields.h"
#include "base/assign_or_return.h"
#include "base/strings.h"
#include "base/utf8.h"

namespace pagoda {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxTokens = std::size_t{1} << 20;
// Texts of up to this size are counted even if the context is shorter.
constexpr std::size_t kTextBytes = std::size_t{1} << 20;

// `adapter` null: the base model under the name `name`.
void write_model(JsonWriter& writer, const std::string& name, const AdapterCatalog::Handle& adapter,
                 const ApiContext& context, ModelForm form) {
  if (form == ModelForm::anthropic) {
    writer.begin_object().key("type").string("model").key("id").string(name).key("display_name").string(name);
    writer.key("created_at").string(rfc3339(context.model_created)).key("lifecycle").string("active");
    writer.key("max_input_tokens").integer(context.max_model_len);
    writer.key("max_tokens").integer(context.max_model_len).end_object();
    return;
  }
  writer.begin_object().key("id").string(name).key("object").string("model");
  writer.key("created").integer(context.model_created).key("owned_by").string("pagoda");
  const std::string& root = adapter != nullptr ? adapter->path : context.model_root;
  writer.key("root").string(to_valid_utf8(root.empty() ? name : root)).key("parent");
  if (adapter != nullptr)
    writer.string(context.model_names.front());
  else
    writer.null();
  writer.key("max_model_len").integer(context.max_model_len).end_object();
}

// As in llama.cpp, bytes that are not valid UTF-8 are written as a list of numbers.
void write_piece(JsonWriter& writer, std::string_view bytes) {
  if (is_valid_utf8(bytes)) {
    writer.string(bytes);
    return;
  }
  writer.begin_array();
  for (const char byte : bytes) writer.integer(static_cast<unsigned char>(byte));
  writer.end_array();
}

// The prompt tokens of the conversation in `body`.
Result<std::vector<TokenId>> chat_prompt(std::string_view body, const ApiContext& context) {
  const Result<json::value> value = parse_json_body(body);
  if (!value) return value.error();
  FieldReader fields(value->as_object());
  if (const auto model = fields.string("model", 1024)) PAGODA_RETURN_IF_ERROR(check_model(*model, context));
  std::vector<TokenId> ids = read_chat_prompt(fields, context).token_ids;
  if (!fields.ok()) return fields.status();
  return ids;
}

}  // namespace

Result<std::string> tokenize_body(std::string_view body, const ApiContext& context) {
  const Result<json::value> value = parse_json_body(body);
  if (!value) return value.error();
  FieldReader fields(value->as_object());
  if (const auto model = fields.string("model", 1024)) PAGODA_RETURN_IF_ERROR(check_model(*model, context));
  const bool with_strings = fields.boolean("return_token_strs").value_or(false);

  std::vector<TokenId> ids;
  // llama.cpp's fields: no special tokens are added unless requested.
  const bool llamacpp = fields.has("content") && !fields.has("prompt");
  const bool with_pieces = fields.boolean("with_pieces").value_or(false);
  if (fields.has("messages")) {
    ids = read_chat_prompt(fields, context).token_ids;
  } else {
    const std::string_view name = llamacpp ? "content" : "prompt";
    const std::optional<std::string> prompt = fields.string(name, kAnyLength);
    EncodeOptions options;
    options.add_special_tokens = llamacpp ? fields.boolean("add_special").value_or(false)
                                          : fields.boolean("add_special_tokens").value_or(true);
    options.parse_special = fields.boolean("parse_special").value_or(true);
    if (fields.ok() && !prompt) fields.fail(name, "is required");
    if (prompt && prompt->size() > kTextBytes && exceeds_byte_bound(context, prompt->size()))
      fields.fail(context_length_exceeded(context, name, "The text is far longer than that."));
    if (fields.ok()) {
      Result<std::vector<TokenId>> encoded = context.tokenizer->encode(*prompt, options);
      if (!encoded)
        fields.fail(name, "cannot be tokenized");
      else
        ids = std::move(*encoded);
    }
  }
  if (!fields.ok()) return fields.status();

  std::string out;
  JsonWriter writer(out);
  writer.begin_object().key("count").integer(static_cast<std::int64_t>(ids.size()));
  writer.key("max_model_len").integer(context.max_model_len).key("tokens");
  if (with_pieces) {
    writer.begin_array();
    for (const TokenId id : ids) {
      writer.begin_object().key("id").integer(id).key("piece");
      write_piece(writer, context.tokenizer->token_bytes(id));
      writer.end_object();
    }
    writer.end_array();
  } else {
    writer.integers(ids);
  }
  writer.key("token_strs");
  if (with_strings) {
    writer.begin_array();
    for (const TokenId id : ids) writer.string(to_valid_utf8(context.tokenizer->token_string(id)));
    writer.end_array();
  } else {
    writer.null();
  }
  writer.end_object();
  return out;
}

Result<std::string> apply_template_body(std::string_view body, const ApiContext& context) {
  PAGODA_ASSIGN_OR_RETURN(const std::vector<TokenId> ids, chat_prompt(body, context));
  std::string out;
  JsonWriter(out)
      .begin_object()
      .key("prompt")
      .string(to_valid_utf8(context.tokenizer->decode(ids, /*skip_special_tokens=*/false)))
      .end_object();
  return out;
}

Result<std::string> count_chat_body(std::string_view body, const ApiContext& context) {
  PAGODA_ASSIGN_OR_RETURN(const std::vector<TokenId> ids, chat_prompt(body, context));
  return concat(R"({"object":"response.input_tokens","input_tokens":)", ids.size(), "}");
}

Result<std::string> detokenize_body(std::string_view body, const ApiContext& context) {
  const Result<json::value> value = parse_json_body(body);
  if (!value) return value.error();
  FieldReader fields(value->as_object());
  if (const auto model = fields.string("model", 1024)) PAGODA_RETURN_IF_ERROR(check_model(*model, context));
  const auto ids = fields.token_ids("tokens", kMaxTokens, context.vocab_size);
  if (fields.ok() && !ids) fields.fail("tokens", "is required");
  if (!fields.ok()) return fields.status();
  std::string out;
  JsonWriter writer(out);
  const std::string text = to_valid_utf8(context.tokenizer->decode(*ids, false));
  writer.begin_object().key("prompt").string(text).key("content").string(text).end_object();  // llama.cpp's
  return out;
}

std::string models_body(const ApiContext& context, ModelForm form) {
  std::string out;
  JsonWriter writer(out);
  writer.begin_object();
  if (form == ModelForm::openai) writer.key("object").string("list");
  writer.key("data").begin_array();
  std::string last = context.model_names.back();
  for (const std::string& name : context.model_names) write_model(writer, name, nullptr, context, form);
  if (context.adapters != nullptr) {
    for (const AdapterCatalog::Handle& adapter : context.adapters->list()) {
      write_model(writer, adapter->name, adapter, context, form);
      last = adapter->name;
    }
  }
  writer.end_array();
  if (form == ModelForm::anthropic) {
    writer.key("has_more").boolean(false).key("first_id").string(context.model_names.front());
    writer.key("last_id").string(last);
  }
  writer.end_object();
  return out;
}

Result<std::string> model_body(std::string_view name, const ApiContext& context, ModelForm form) {
  PAGODA_ASSIGN_OR_RETURN(const AdapterCatalog::Handle adapter, choose_model(name, context));
  std::string out;
  JsonWriter writer(out);
  write_model(writer, std::string(name), adapter, context, form);
  return out;
}

std::string version_body(const ApiContext& context) {
  std::string out;
  JsonWriter(out).begin_object().key("version").string(context.version).end_object();
  return out;
}

}  // namespace pagoda
