#include "api/pooling/pooling_protocol.h"

#include "api/error_body.h"
#include "api/pooling/pooling_parser.h"
#include "api/pooling/pooling_writer.h"

namespace pagoda {
namespace {

template <PoolingForm kForm>
Result<ApiGeneration> answer(const ApiCall& call, const ApiContext& context) {
  Result<PoolingCall> parsed = parse_pooling_call(kForm, call, context);
  if (!parsed) return parsed.error();
  ApiGeneration out;
  out.id = parsed->id;
  out.requests = parsed->requests;
  out.warnings = std::move(parsed->warnings);
  out.answer = std::make_unique<PoolingWriter>(*std::move(parsed), context);
  return out;
}

constexpr RouteFacts post(std::string_view path) {
  return {.method = "POST",
          .path = path,
          .cost = Cost::generation,
          .form = AnswerForm::json,
          .body = BodyForm::json};
}

constexpr ApiRoute kRoutes[] = {
    {post("/v1/embeddings"), answer<PoolingForm::embeddings>},
    {post("/embedding"), answer<PoolingForm::embedding_list>},  // llama.cpp's
    {post("/embed"), answer<PoolingForm::vector_list>},         // text-embeddings-inference's
    {post("/v2/embed"), answer<PoolingForm::by_type>},          // Cohere's
    {post("/pooling"), answer<PoolingForm::pooling>},
    {post("/classify"), answer<PoolingForm::classify>},
    {post("/score"), answer<PoolingForm::score>},
    {post("/v1/score"), answer<PoolingForm::score>},
    {post("/rerank"), answer<PoolingForm::rerank>},
    {post("/v1/rerank"), answer<PoolingForm::rerank>},
    {post("/v2/rerank"), answer<PoolingForm::rerank>},
    {post("/v1/reranking"), answer<PoolingForm::rerank>},  // llama.cpp's name
};

constexpr Protocol kProtocol = {.name = "pooling", .routes = kRoutes, .error_body = openai_error_body};

}  // namespace

const Protocol& pooling_protocol() { return kProtocol; }

}  // namespace pagoda
