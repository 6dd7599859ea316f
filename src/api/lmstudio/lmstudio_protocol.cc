#include "api/lmstudio/lmstudio_protocol.h"

#include "api/error_body.h"
#include "api/field_reader.h"
#include "api/json.h"

namespace pagoda {
namespace {

// "ORG/NAME" -> "ORG"; empty for a name without a slash.
std::string_view publisher_of(std::string_view name) {
  const std::size_t slash = name.find('/');
  return slash == std::string_view::npos ? std::string_view() : name.substr(0, slash);
}

std::string_view type_of(const ApiContext& context) { return context.vectors ? "embedding" : "llm"; }

void write_model(JsonWriter& json, const std::string& name, const ApiContext& context) {
  const ModelFacts& facts = context.facts;
  json.begin_object().key("type").string(type_of(context)).key("publisher").string(publisher_of(name));
  json.key("key")
      .string(name)
      .key("display_name")
      .string(name)
      .key("architecture")
      .string(facts.architecture);
  json.key("quantization").begin_object().key("name").string(facts.weight_type).key("bits_per_weight").null();
  json.end_object().key("size_bytes").integer(facts.weight_bytes).key("params_string").null();
  json.key("loaded_instances")
      .begin_array()
      .begin_object()
      .key("id")
      .string(name)
      .key("config")
      .begin_object();
  json.key("context_length").integer(context.max_model_len);
  json.key("parallel").integer(context.max_num_seqs).end_object().end_object().end_array();
  json.key("max_context_length").integer(context.max_model_len).key("format").null();
  if (!context.vectors) {
    json.key("capabilities").begin_object().key("vision").boolean(false);
    json.key("trained_for_tool_use").boolean(!context.tool_parser.empty()).end_object();
  }
  json.key("description").null().end_object();
}

Result<ApiAnswer> models(const ApiCall&, const ApiContext& context) {
  std::string out;
  JsonWriter json(out);
  json.begin_object().key("models").begin_array();
  for (const std::string& name : listed_models(context)) write_model(json, name, context);
  json.end_array().end_object();
  return ApiAnswer(std::move(out));
}

// Loading is a no-op: the model is loaded as long as the server runs.
Result<ApiAnswer> load(const ApiCall& call, const ApiContext& context) {
  const Result<boost::json::value> value = parse_json_body(call.body);
  if (!value) return value.error();
  FieldReader fields(value->as_object());
  const std::optional<std::string> model = fields.string("model", 1024);
  if (fields.ok() && !model) fields.fail("model", "is required");
  if (!fields.ok()) return fields.status();
  PAGODA_RETURN_IF_ERROR(check_model(*model, context));
  std::string out;
  JsonWriter json(out);
  json.begin_object().key("type").string(type_of(context)).key("instance_id").string(*model);
  json.key("load_time_seconds").integer(0).key("status").string("loaded").end_object();
  return ApiAnswer(std::move(out));
}

void write_v0_model(JsonWriter& json, std::string_view name, const ApiContext& context) {
  json.begin_object().key("id").string(name).key("object").string("model");
  json.key("type").string(context.vectors ? "embeddings" : "llm").key("publisher").string(publisher_of(name));
  json.key("arch").string(context.facts.architecture).key("quantization").string(context.facts.weight_type);
  json.key("state").string("loaded").key("max_context_length").integer(context.max_model_len);
  json.key("loaded_context_length").integer(context.max_model_len).key("capabilities").begin_array();
  if (!context.tool_parser.empty()) json.string("tool_use");
  json.end_array().end_object();
}

Result<ApiAnswer> v0_models(const ApiCall&, const ApiContext& context) {
  std::string out;
  JsonWriter json(out);
  json.begin_object().key("object").string("list").key("data").begin_array();
  for (const std::string& name : listed_models(context)) write_v0_model(json, name, context);
  json.end_array().end_object();
  return ApiAnswer(std::move(out));
}

Result<ApiAnswer> v0_model(const ApiCall& call, const ApiContext& context) {
  PAGODA_RETURN_IF_ERROR(check_model(call.parameter, context));
  std::string out;
  JsonWriter json(out);
  write_v0_model(json, to_valid_utf8(call.parameter), context);
  return ApiAnswer(std::move(out));
}

constexpr ApiRoute kRoutes[] = {
    {{.method = "GET", .path = "/api/v1/models"}, models},
    {{.method = "POST", .path = "/api/v1/models/load", .body = BodyForm::json}, load},
    {{.method = "GET", .path = "/api/v0/models"}, v0_models},
    {{.method = "GET", .path = "/api/v0/models/{model}"}, v0_model},
};

constexpr Protocol kProtocol = {.name = "lmstudio", .routes = kRoutes, .error_body = openai_error_body};

}  // namespace

const Protocol& lmstudio_protocol() { return kProtocol; }

}  // namespace pagoda
