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

constexpr ApiRoute kRoutes[] = {
    {post_json("/v1/embeddings", Cost::generation, AnswerForm::json), answer<PoolingForm::embeddings>},
    {post_json("/embedding", Cost::generation, AnswerForm::json),
     answer<PoolingForm::embedding_list>},  // llama.cpp's
    {post_json("/embed", Cost::generation, AnswerForm::json),
     answer<PoolingForm::vector_list>},  // text-embeddings-inference's
    {post_json("/v2/embed", Cost::generation, AnswerForm::json), answer<PoolingForm::by_type>},  // Cohere's
    {post_json("/pooling", Cost::generation, AnswerForm::json), answer<PoolingForm::pooling>},
    {post_json("/classify", Cost::generation, AnswerForm::json), answer<PoolingForm::classify>},
    {post_json("/score", Cost::generation, AnswerForm::json), answer<PoolingForm::score>},
    {post_json("/v1/score", Cost::generation, AnswerForm::json), answer<PoolingForm::score>},
    {post_json("/rerank", Cost::generation, AnswerForm::json), answer<PoolingForm::rerank>},
    {post_json("/v1/rerank", Cost::generation, AnswerForm::json), answer<PoolingForm::rerank>},
    {post_json("/v2/rerank", Cost::generation, AnswerForm::json), answer<PoolingForm::rerank>},
    {post_json("/v1/reranking", Cost::generation, AnswerForm::json),
     answer<PoolingForm::rerank>},  // llama.cpp's name
};

constexpr Protocol kProtocol = {.name = "pooling", .routes = kRoutes, .error_body = openai_error_body};

}  // namespace

const Protocol& pooling_protocol() { return kProtocol; }

}  // namespace pagoda
