// Any bytes as the body of each endpoint that reads one. The first byte chooses the endpoint.
// links: api
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "api/error_body.h"
#include "api/errors.h"
#include "api/json.h"
#include "api/openai/request_parser.h"
#include "api/openai/response_builder.h"
#include "api/openai/text_endpoints.h"
#include "api/test_support.h"

namespace {

const pagoda::TestModel& model() {
  static const pagoda::TestModel* const made = new pagoda::TestModel(256);
  return *made;
}

void check(bool holds) {
  if (!holds) std::abort();
}

// An error is the client's to read: JSON, and never of a kind that says that we failed.
void check_error(const pagoda::Status& status) {
  check(pagoda::parse_json(pagoda::openai_error_body(pagoda::api_error(status))).has_value());
  const int http = pagoda::http_status(status);
  check(http == 400 || http == 404 || http == 501);
}

// An accepted call keeps to every limit, and can be answered.
void check_call(pagoda::ParsedCall call, const pagoda::ApiContext& context) {
  check(!call.requests.empty() && call.requests.size() * static_cast<std::size_t>(call.response.n) <= 1024);
  for (const pagoda::Request& request : call.requests) {
    check(!request.prompt_token_ids.empty() && request.sampling.max_tokens >= 1);
    check(static_cast<std::int32_t>(request.prompt_token_ids.size()) + request.sampling.max_tokens <=
          context.max_model_len);
    for (const pagoda::TokenId id : request.prompt_token_ids) check(id >= 0 && id < context.vocab_size);
    check(request.sampling.temperature >= 0 && request.sampling.top_p > 0 && request.sampling.top_p <= 1);
  }
  const std::size_t num_prompts = call.requests.size();
  const std::int32_t n = call.response.n;
  pagoda::ResponseBuilder builder(std::move(call.response), context);
  for (std::size_t prompt = 0; prompt < num_prompts; ++prompt) {
    pagoda::RequestOutput output;
    for (std::int32_t i = 0; i < n; ++i) {
      output.deltas.push_back(pagoda::delta_of("a\xc3\xa9z", i));
      output.deltas.back().finish_reason = pagoda::FinishReason::length;
    }
    output.finished = true;
    builder.add(prompt, std::move(output));
  }
  check(builder.finished() && builder.error().ok());
  if (builder.streaming())
    check(builder.take_events().ends_with("data: [DONE]\n\n"));
  else
    check(pagoda::parse_json(builder.body()).has_value());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const pagoda::ApiContext& context = model().context;
  const std::string_view body(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0] % 4) {
    case 0:
    case 1: {
      const auto kind = data[0] % 4 == 0 ? pagoda::CallKind::completion : pagoda::CallKind::chat;
      auto call = pagoda::parse_call(kind, body, {.id = "id", .created = 1}, context);
      if (call)
        check_call(std::move(*call), context);
      else
        check_error(call.error());
      break;
    }
    default: {
      const auto answer =
          data[0] % 4 == 2 ? pagoda::tokenize_body(body, context) : pagoda::detokenize_body(body, context);
      if (answer)
        check(pagoda::parse_json(*answer).has_value());
      else
        check_error(answer.error());
    }
  }
  return 0;
}
