#include "api/openai/openai_protocol.h"

#include "api/error_body.h"
#include "api/openai/request_parser.h"
#include "api/openai/response_builder.h"
#include "api/openai/text_endpoints.h"

namespace pagoda {
namespace {

Result<ApiGeneration> generation(CallKind kind, const ApiCall& call, const ApiContext& context) {
  Result<ParsedCall> parsed = parse_call(kind, call.body, {.id = call.id, .created = call.created}, context);
  if (!parsed) return parsed.error();
  ApiGeneration out;
  out.id = parsed->response.id;
  out.requests = std::move(parsed->requests);
  out.timeout_s = parsed->timeout_s;
  out.grammars = std::move(parsed->grammars);
  out.warnings = std::move(parsed->warnings);
  out.answer = std::make_unique<ResponseBuilder>(std::move(parsed->response), context);
  return out;
}
Result<ApiGeneration> completion(const ApiCall& call, const ApiContext& context) {
  return generation(CallKind::completion, call, context);
}
Result<ApiGeneration> chat(const ApiCall& call, const ApiContext& context) {
  return generation(CallKind::chat, call, context);
}

Result<ApiAnswer> answer(Result<std::string> body) {
  if (!body) return body.error();
  return ApiAnswer(*std::move(body));
}
Result<ApiAnswer> tokenize(const ApiCall& call, const ApiContext& context) {
  return answer(tokenize_body(call.body, context));
}
Result<ApiAnswer> detokenize(const ApiCall& call, const ApiContext& context) {
  return answer(detokenize_body(call.body, context));
}
Result<ApiAnswer> apply_template(const ApiCall& call, const ApiContext& context) {
  return answer(apply_template_body(call.body, context));
}
Result<ApiAnswer> count_chat(const ApiCall& call, const ApiContext& context) {
  return answer(count_chat_body(call.body, context));
}
// OpenAI's and Anthropic's clients use the same path; Anthropic's send the version of its API.
ModelForm model_form(const ApiCall& call) {
  return call.header("anthropic-version").empty() ? ModelForm::openai : ModelForm::anthropic;
}
Result<ApiAnswer> models(const ApiCall& call, const ApiContext& context) {
  return ApiAnswer(models_body(context, model_form(call)));
}
Result<ApiAnswer> model(const ApiCall& call, const ApiContext& context) {
  return answer(model_body(call.parameter, context, model_form(call)));
}
Result<ApiAnswer> version(const ApiCall&, const ApiContext& context) {
  return ApiAnswer(version_body(context));
}

constexpr std::size_t kTextBody = std::size_t{8} << 20;  // tokens or text of the longest context, escaped

constexpr ApiRoute kRoutes[] = {
    {post_json("/v1/completions", Cost::generation, AnswerForm::sse), completion},
    {post_json("/v1/chat/completions", Cost::generation, AnswerForm::sse), chat},
    {post_json("/v1/chat/completions/input_tokens", Cost::text, AnswerForm::json),
     count_chat},  // llama.cpp's
    {post_json("/tokenize", Cost::text, AnswerForm::json, kTextBody), tokenize},
    {post_json("/detokenize", Cost::text, AnswerForm::json, kTextBody), detokenize},
    {post_json("/apply-template", Cost::text, AnswerForm::json, kTextBody), apply_template},
    {{.method = "GET", .path = "/v1/models"}, models},
    {{.method = "GET", .path = "/v1/models/"}, models},
    {{.method = "GET", .path = "/v1/models/{model}"}, model},
    {{.method = "GET", .path = "/version"}, version},
};

constexpr Protocol kProtocol = {.name = "openai", .routes = kRoutes, .error_body = openai_error_body};

}  // namespace

const Protocol& openai_protocol() { return kProtocol; }

}  // namespace pagoda
