#include "api/tgi/tgi_protocol.h"

#include <algorithm>

#include "api/tgi/tgi_parser.h"
#include "api/tgi/tgi_writer.h"
#include "base/strings.h"

namespace pagoda {
namespace {

Result<ApiGeneration> generation(TgiRoute route, const ApiCall& call, const ApiContext& context) {
  Result<TgiCall> parsed = parse_tgi_call(call.body, route, context);
  if (!parsed) return parsed.error();
  ApiGeneration out;
  out.id = concat("tgi-", call.id);
  out.requests.push_back(parsed->request);
  out.grammars = std::move(parsed->grammars);
  out.warnings = std::move(parsed->warnings);
  out.answer = std::make_unique<TgiWriter>(*std::move(parsed), route == TgiRoute::root, context);
  return out;
}
Result<ApiGeneration> generate(const ApiCall& call, const ApiContext& context) {
  return generation(TgiRoute::generate, call, context);
}
Result<ApiGeneration> generate_stream(const ApiCall& call, const ApiContext& context) {
  return generation(TgiRoute::generate_stream, call, context);
}
Result<ApiGeneration> root(const ApiCall& call, const ApiContext& context) {
  return generation(TgiRoute::root, call, context);
}

// For clients of TGI and of text-embeddings-inference, which distinguish the two by "model_type".
Result<ApiAnswer> info(const ApiCall&, const ApiContext& context) {
  std::string out;
  JsonWriter json(out);
  json.begin_object().key("model_id").string(context.model_names.front()).key("model_sha").null();
  json.key("model_dtype").string(context.facts.weight_type);
  if (context.vectors) {
    const bool embeds = context.vectors->kind == WorkKind::embed;
    json.key("model_type")
        .begin_object()
        .key(embeds                               ? "embedding"
             : context.vectors->labels.size() > 1 ? "classifier"
                                                  : "reranker");
    json.begin_object().end_object().end_object();
    json.key("max_input_length").integer(context.max_model_len);
  } else {
    json.key("model_pipeline_tag").string("text-generation");
    json.key("max_input_tokens").integer(context.max_model_len - 1);
    json.key("max_total_tokens").integer(context.max_model_len);
  }
  json.key("max_concurrent_requests").integer(std::max(context.max_num_seqs, 1));
  json.key("version").string(context.version).key("router").string("pagoda").end_object();
  return ApiAnswer(std::move(out));
}

constexpr ApiRoute kRoutes[] = {
    {post_json("/generate", Cost::generation, AnswerForm::sse), generate},
    {post_json("/generate_stream", Cost::generation, AnswerForm::sse), generate_stream},
    {post_json("/", Cost::generation, AnswerForm::sse), root},
    {{.method = "GET", .path = "/info"}, info},
};

constexpr Protocol kProtocol = {.name = "tgi", .routes = kRoutes, .error_body = tgi_error_body};

}  // namespace

const Protocol& tgi_protocol() { return kProtocol; }

}  // namespace pagoda
