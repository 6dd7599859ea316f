#include "api/llamacpp/llamacpp_protocol.h"

#include <boost/json/array.hpp>

#include "api/json.h"
#include "api/llamacpp/completion_parser.h"
#include "api/llamacpp/completion_writer.h"
#include "api/model_fields.h"
#include "base/strings.h"

namespace pagoda {
namespace {

Result<ApiGeneration> generation(bool infill, const ApiCall& call, const ApiContext& context) {
  Result<LlamaCompletion> parsed = parse_llama_completion(call.body, infill, context);
  if (!parsed) return parsed.error();
  ApiGeneration out;
  out.id = concat("cmpl-", call.id);
  out.requests = parsed->requests;
  out.grammars = std::move(parsed->grammars);
  out.warnings = std::move(parsed->warnings);
  out.answer = std::make_unique<LlamaCompletionWriter>(*std::move(parsed), context);
  return out;
}
Result<ApiGeneration> completion(const ApiCall& call, const ApiContext& context) {
  return generation(false, call, context);
}
Result<ApiGeneration> infill(const ApiCall& call, const ApiContext& context) {
  return generation(true, call, context);
}

// "params" of /props: the sampling defaults set by the model's files. Clients use their own defaults for the
// others.
void stated_sampling(const SamplingDefaults& defaults, JsonWriter& json) {
  json.key("params").begin_object();
  if (defaults.temperature) json.key("temperature").float32(*defaults.temperature);
  if (defaults.top_k) json.key("top_k").integer(*defaults.top_k);
  if (defaults.top_p) json.key("top_p").float32(*defaults.top_p);
  if (defaults.min_p) json.key("min_p").float32(*defaults.min_p);
  if (defaults.repetition_penalty) json.key("repeat_penalty").float32(*defaults.repetition_penalty);
  json.end_object();
}

// The vLLM pooling task that the model serves.
std::string_view pooling_task(const VectorModel& model) {
  if (model.kind == WorkKind::embed) return "embed";
  return model.labels.size() > 1 ? "classify" : "score";
}

Result<ApiAnswer> props(const ApiCall&, const ApiContext& context) {
  const auto token = [&context](TokenId id) {
    return id < 0 ? std::string() : to_valid_utf8(context.tokenizer->token_string(id));
  };
  std::string out;
  JsonWriter json(out);
  json.begin_object().key("default_generation_settings").begin_object();
  json.key("id").integer(0).key("n_ctx").integer(context.max_model_len).key("is_processing").boolean(false);
  stated_sampling(context.defaults, json);
  json.end_object().key("total_slots").integer(std::max(context.max_num_seqs, 1));
  json.key("model_alias").string(context.model_names.front());
  json.key("model_path").string(to_valid_utf8(context.model_root));
  json.key("chat_template")
      .string(context.chat_template == nullptr ? "" : to_valid_utf8(context.chat_template->source()));
  json.key("bos_token").string(token(context.tokenizer->bos()));
  json.key("eos_token").string(token(context.tokenizer->eos()));
  json.key("modalities").begin_object().key("vision").boolean(false).key("audio").boolean(false).end_object();
  if (context.vectors) json.key("pooling_task").string(pooling_task(*context.vectors));
  json.key("build_info").string(concat("pagoda-", context.version)).end_object();
  return ApiAnswer(std::move(out));
}

// "scale" applies to calls that do not mention adapters.
Result<ApiAnswer> adapters(const ApiCall&, const ApiContext& context) {
  std::string out;
  JsonWriter json(out);
  json.begin_array();
  if (context.adapters != nullptr) {
    for (const AdapterCatalog::Handle& adapter : context.adapters->list()) {
      json.begin_object().key("id").integer(llama_id(*adapter)).key("name").string(adapter->name);
      json.key("path").string(to_valid_utf8(adapter->path)).key("scale").integer(0);
      json.key("task_name").string("").key("prompt_prefix").string("").end_object();
    }
  }
  json.end_array();
  return ApiAnswer(std::move(out));
}

// [{"id", "scale"}] sets the scales for calls that do not mention adapters. These are always 0 here, so only
// a body that chooses no adapter is accepted.
Result<ApiAnswer> set_scales(const ApiCall& call, const ApiContext& context) {
  const Result<boost::json::value> value = parse_json(call.body);
  if (!value) return value.error();
  boost::json::object body;
  body["lora"] = value->is_object() ? boost::json::value(boost::json::array{*value}) : *value;
  FieldReader fields(body);
  AdapterCatalog::Handle chosen;
  read_lora(fields, context, chosen);
  if (!fields.ok()) return fields.status();
  if (chosen != nullptr)
    return invalid_argument(concat("An adapter is chosen by each request: \"model\": \"", chosen->name,
                                   "\", or \"lora\": [{\"id\": ", llama_id(*chosen), ", \"scale\": 1}]."))
        .with_param("scale");
  return ApiAnswer(R"({"success":true})");
}

constexpr ApiRoute kRoutes[] = {
    {post_json("/completion", Cost::generation, AnswerForm::sse), completion},
    {post_json("/infill", Cost::generation, AnswerForm::sse), infill},
    {{.method = "GET", .path = "/props"}, props},
    {{.method = "GET", .path = "/lora-adapters"}, adapters},
    {{.method = "POST", .path = "/lora-adapters", .role = Role::admin, .body = BodyForm::any}, set_scales},
};

constexpr Protocol kProtocol = {.name = "llamacpp", .routes = kRoutes, .error_body = llamacpp_error_body};

}  // namespace

const Protocol& llamacpp_protocol() { return kProtocol; }

}  // namespace pagoda
