// Any bytes as the body of each route of each protocol; the first byte chooses the route, the second how the
// answer comes. Whatever is accepted keeps to the context and is answered, whole or as a stream.
// links: api
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "api/answer_store.h"
#include "api/anthropic/anthropic_protocol.h"
#include "api/errors.h"
#include "api/json.h"
#include "api/llamacpp/llamacpp_protocol.h"
#include "api/ollama/ollama_protocol.h"
#include "api/openai/openai_protocol.h"
#include "api/pooling/pooling_protocol.h"
#include "api/responses/responses_protocol.h"
#include "api/test_support.h"

namespace {

struct NothingDetached final : pagoda::DetachedCalls {
  bool cancel(std::string_view) override { return false; }
};

struct Served : pagoda::TestModel {
  Served() : TestModel(256), store(std::size_t{1} << 16) {
    context.answers = &store;
    context.detached = &detached;
    context.tool_parser = "hermes";
    context.reasoning_parser = "qwen3";
  }
  pagoda::AnswerStore store;
  NothingDetached detached;
};

void check(bool holds) {
  if (!holds) std::abort();
}

void check_error(const pagoda::Protocol& protocol, const pagoda::Status& status) {
  check(pagoda::parse_json(protocol.error_body(pagoda::api_error(status))).has_value());
  const int http = pagoda::http_status(status);
  check((http >= 400 && http < 500) || http == 501);
}

void check_call(pagoda::ApiGeneration call, std::uint8_t how, const pagoda::ApiContext& context) {
  constexpr std::string_view kSaid =
      "<think>h\xc3\xa9</think>Ok <tool_call>{\"name\": \"f\", \"arguments\": {\"a\": [1,\n2]}}</tool_call> "
      "end";
  for (const pagoda::Request& request : call.requests) {
    check(!request.prompt_token_ids.empty() && (request.sampling.max_tokens == 0) == request.work.pools());
    check(static_cast<std::int32_t>(request.prompt_token_ids.size()) + request.sampling.max_tokens <=
          context.max_model_len);
    for (const pagoda::TokenId id : request.prompt_token_ids) check(id >= 0 && id < context.vocab_size);
  }
  const std::size_t step = 1 + how % 16;
  std::string out;
  for (std::size_t prompt = 0; prompt < call.requests.size(); ++prompt) {
    for (std::size_t at = 0; at < kSaid.size(); at += step) {
      pagoda::RequestOutput output;
      for (std::int32_t i = 0; i < call.requests[prompt].sampling.n; ++i) {
        output.deltas.push_back(pagoda::delta_of(kSaid.substr(at, step), i));
        if (call.requests[prompt].work.pools() && at + step >= kSaid.size())
          output.deltas.back().vector.assign(4, static_cast<float>(how));
        if (at + step >= kSaid.size())
          output.deltas.back().finish_reason =
              how & 16 ? pagoda::FinishReason::length : pagoda::FinishReason::stop;
      }
      output.finished = at + step >= kSaid.size();
      call.answer->add(prompt, std::move(output));
      (void)call.answer->take_stops();
      while (call.answer->take(out, std::size_t{1} << 20)) {
      }
      if (how & 32) call.answer->fail(pagoda::unavailable("Gone."));
    }
  }
  while (call.answer->take(out, std::size_t{1} << 24)) {
  }
  check(call.answer->finished());
  if (!call.answer->streaming() && call.answer->error().ok()) check(pagoda::parse_json(out).has_value());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  static Served* const served = new Served;
  static const std::vector<std::pair<const pagoda::Protocol*, const pagoda::ApiRoute*>> rows = [] {
    std::vector<std::pair<const pagoda::Protocol*, const pagoda::ApiRoute*>> all;
    for (const pagoda::Protocol* protocol :
         {&pagoda::openai_protocol(), &pagoda::responses_protocol(), &pagoda::anthropic_protocol(),
          &pagoda::ollama_protocol(), &pagoda::llamacpp_protocol(), &pagoda::pooling_protocol()})
      for (const pagoda::ApiRoute& row : protocol->routes) all.emplace_back(protocol, &row);
    return all;
  }();
  // The second byte's last bits also say what the model makes: text, embeddings or scores.
  served->context.vectors.reset();
  if (const int kind = data[1] >> 6; kind > 1) {
    pagoda::VectorModel& vectors = served->context.vectors.emplace();
    vectors.kind = kind == 2 ? pagoda::WorkKind::embed : pagoda::WorkKind::score;
    vectors.whole_prompt = (data[1] & 1) != 0;
    vectors.size = kind == 2 ? 4 : 1;
  }
  const auto& [protocol, row] = rows[data[0] % rows.size()];
  pagoda::ApiCall call;
  call.method = row->facts.method;
  call.body.assign(reinterpret_cast<const char*>(data + 2), size - 2);
  call.parameter = call.body.substr(0, 64);
  call.id = "id";
  if (const auto* handler = std::get_if<pagoda::AnswerHandler>(&row->handler)) {
    const auto answer = (*handler)(call, served->context);
    if (answer)
      check(pagoda::parse_json(answer->body).has_value());
    else
      check_error(*protocol, answer.error());
  } else {
    auto made = std::get<pagoda::GenerationHandler>(row->handler)(call, served->context);
    if (made)
      check_call(std::move(*made), data[1], served->context);
    else
      check_error(*protocol, made.error());
  }
  served->store.check_invariants();
  return 0;
}
