#include "api/ollama/ollama_protocol.h"

#include <boost/json/object.hpp>

#include "api/field_reader.h"
#include "api/fill_in_middle.h"
#include "api/json.h"
#include "api/ollama/ollama_embed.h"
#include "api/ollama/ollama_parser.h"
#include "api/ollama/ollama_writer.h"
#include "api/time_text.h"
#include "base/strings.h"
#include "base/xxh64.h"

namespace pagoda {
namespace {

Result<ApiGeneration> generation(bool chat, const ApiCall& call, const ApiContext& context) {
  Result<OllamaCall> parsed = parse_ollama_call(call.body, chat, context);
  if (!parsed) return parsed.error();
  ApiGeneration out;
  out.id = concat("ollama-", call.id);
  if (parsed->request) out.requests.push_back(*parsed->request);
  out.grammars = std::move(parsed->grammars);
  out.warnings = std::move(parsed->warnings);
  out.answer = std::make_unique<OllamaWriter>(*std::move(parsed), out.id, call.created, context);
  return out;
}
Result<ApiGeneration> generate(const ApiCall& call, const ApiContext& context) {
  return generation(false, call, context);
}
Result<ApiGeneration> chat(const ApiCall& call, const ApiContext& context) {
  return generation(true, call, context);
}

Result<ApiGeneration> embed(const ApiCall& call, const ApiContext& context) {
  return ollama_embed(false, call, context);
}
Result<ApiGeneration> embeddings(const ApiCall& call, const ApiContext& context) {
  return ollama_embed(true, call, context);
}

// Long, because clients truncate it for display. It identifies a name, not a file.
std::string digest_of(std::string_view name) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  for (std::uint64_t seed = 0; seed < 4; ++seed)
    for (std::uint64_t hash = xxh64(name, seed), i = 0; i < 16; ++i, hash >>= 4) out += kHex[hash & 15];
  return out;
}

void write_details(JsonWriter& json, const ApiContext& context) {
  const ModelFacts& facts = context.facts;
  json.key("details").begin_object().key("parent_model").string("").key("format").string("gguf");
  json.key("family").string(facts.architecture).key("families").begin_array().string(facts.architecture);
  json.end_array().key("parameter_size").string("");
  json.key("quantization_level").string(facts.weight_type).end_object();
}

void write_model(JsonWriter& json, const std::string& name, const ApiContext& context) {
  json.key("name").string(name).key("model").string(name);
  json.key("size").integer(context.facts.weight_bytes).key("digest").string(digest_of(name));
  write_details(json, context);
}

Result<ApiAnswer> tags(const ApiCall&, const ApiContext& context) {
  std::string out;
  JsonWriter json(out);
  json.begin_object().key("models").begin_array();
  for (const std::string& name : listed_models(context)) {
    json.begin_object();
    write_model(json, name, context);
    json.key("modified_at").string(rfc3339(context.model_created)).end_object();
  }
  json.end_array().end_object();
  return ApiAnswer(std::move(out));
}

Result<ApiAnswer> running(const ApiCall&, const ApiContext& context) {
  std::string out;
  JsonWriter json(out);
  json.begin_object().key("models").begin_array();
  std::vector<std::string> names = listed_models(context);
  names.erase(names.begin() + 1, names.begin() + std::ssize(context.model_names));  // base model's
  for (const std::string& name : names) {
    json.begin_object();
    write_model(json, name, context);
    json.key("expires_at").string("9999-12-31T23:59:59Z");  // the model stays as long as the server
    json.key("size_vram").integer(0).key("context_length").integer(context.max_model_len);
    json.end_object();
  }
  json.end_array().end_object();
  return ApiAnswer(std::move(out));
}

// Older clients send "name". nullopt: `fields` has the error.
std::optional<std::string> read_model_name(FieldReader& fields) {
  std::optional<std::string> model = fields.string("model", 1024);
  if (!model) model = fields.string("name", 1024);
  if (fields.ok() && !model) fields.fail("model", "is required");
  return model;
}

Result<ApiAnswer> show(const ApiCall& call, const ApiContext& context) {
  const Result<boost::json::value> value = parse_json_body(call.body);
  if (!value) return value.error();
  FieldReader fields(value->as_object());
  const std::optional<std::string> model = read_model_name(fields);
  if (!fields.ok()) return fields.status();
  PAGODA_RETURN_IF_ERROR(check_ollama_model(*model, context));
  const std::string architecture =
      context.facts.architecture.empty() ? "unknown" : context.facts.architecture;
  std::string out;
  JsonWriter json(out);
  json.begin_object().key("modelfile").string("").key("parameters").string("");
  json.key("template")
      .string(context.chat_template == nullptr ? "" : to_valid_utf8(context.chat_template->source()));
  write_details(json, context);
  json.key("model_info").begin_object().key("general.architecture").string(architecture);
  json.key(concat(architecture, ".context_length")).integer(context.max_model_len);
  json.key(concat(architecture, ".embedding_length")).integer(context.facts.hidden_size);
  json.key(concat(architecture, ".block_count")).integer(context.facts.num_layers).end_object();
  json.key("capabilities").begin_array().string(context.vectors ? "embedding" : "completion");
  if (!context.tool_parser.empty()) json.string("tools");
  if (!context.reasoning_parser.empty()) json.string("thinking");
  if (fills_in_middle(*context.tokenizer)) json.string("insert");
  json.end_array().key("modified_at").string(rfc3339(context.model_created)).end_object();
  return ApiAnswer(std::move(out));
}

// Programs pull the model that they are about to use. Succeeds for the served model; others do not exist.
Result<ApiAnswer> pull(const ApiCall& call, const ApiContext& context) {
  const Result<boost::json::value> value = parse_json_body(call.body);
  if (!value) return value.error();
  FieldReader fields(value->as_object());
  const std::optional<std::string> model = read_model_name(fields);
  const bool stream = fields.boolean("stream").value_or(true);
  if (!fields.ok()) return fields.status();
  PAGODA_RETURN_IF_ERROR(check_ollama_model(*model, context));
  ApiAnswer answer(R"({"status":"success"})");
  if (stream) {
    answer.body = concat(R"({"status":"pulling manifest"})", "\n", answer.body, "\n");
    answer.content_type = "application/x-ndjson";
  }
  return answer;
}

// Clients refuse servers below the version that they need: Codex asks for 0.13.4, VS Code for 0.6.4. This is
// the Ollama version whose routes are served here; Pagoda's version is at /version.
constexpr std::string_view kOllamaVersion = "0.14.0";

Result<ApiAnswer> version(const ApiCall&, const ApiContext&) {
  std::string out;
  JsonWriter(out).begin_object().key("version").string(kOllamaVersion).end_object();
  return ApiAnswer(std::move(out));
}

constexpr ApiRoute kRoutes[] = {
    {post_json("/api/generate", Cost::generation, AnswerForm::ndjson), generate},
    {post_json("/api/chat", Cost::generation, AnswerForm::ndjson), chat},
    {post_json("/api/embed", Cost::generation, AnswerForm::json), embed},
    {post_json("/api/embeddings", Cost::generation, AnswerForm::json), embeddings},
    {post_json("/api/show", Cost::text, AnswerForm::json), show},
    {post_json("/api/pull", Cost::text, AnswerForm::ndjson), pull},
    {{.method = "GET", .path = "/api/tags"}, tags},
    {{.method = "GET", .path = "/api/ps"}, running},
    {{.method = "GET", .path = "/api/version"}, version},
};

constexpr Protocol kProtocol = {.name = "ollama", .routes = kRoutes, .error_body = ollama_error_body};

}  // namespace

const Protocol& ollama_protocol() { return kProtocol; }

}  // namespace pagoda
