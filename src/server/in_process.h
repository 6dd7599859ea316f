#pragma once
// For tests only: passes a request's body through the handler of its route, without sockets or an engine, and
// checks properties of every answer: no exceptions; errors are 4xx or 501, with a JSON body in the protocol's
// form; accepted requests keep to the model's limits and can be answered, whole and as a stream.
#include <atomic>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "api/errors.h"
#include "api/fake_adapters.h"
#include "api/json.h"
#include "api/test_support.h"
#include "base/strings.h"
#include "constraint/grammar_service.h"
#include "constraint/grammar_text.h"
#include "server/fake_engine.h"
#include "server/server_context.h"

namespace pagoda {

// Performs only the checks that precede the compilation of a grammar by a library.
class CheckedGrammars final : public GrammarBackend {
 public:
  Result<CompiledConstraint> compile(const GrammarSpec& spec,
                                     const std::atomic<bool>* = nullptr) const override {
    if (spec.kind == GrammarSpec::Kind::json_schema) {
      const auto schema = parse_grammar_json(spec.text);
      if (!schema) return schema.error();
      if (const auto prepared = prepare_schema(*schema); !prepared) return prepared.error();
    } else if (spec.kind == GrammarSpec::Kind::choice) {
      if (const auto grammar = choice_grammar(spec.text); !grammar) return grammar.error();
    } else if (spec.kind == GrammarSpec::Kind::structural_tag) {
      if (const auto tag = prepare_structural_tag(spec.text); !tag) return tag.error();
    }
    return CompiledConstraint{};
  }
};

enum class Serves { text, embeddings, scores };

class InProcess {
 public:
  InProcess()
      : model_(1024),
        grammars_(std::make_shared<CheckedGrammars>(), {}),
        server_(config(), true, engine_, context(), metrics_) {}

  void serve(Serves what, bool whole_prompt = false) {
    server_.api.vectors.reset();
    if (what == Serves::text) return;
    VectorModel& vectors = server_.api.vectors.emplace();
    vectors.kind = what == Serves::embeddings ? WorkKind::embed : WorkKind::score;
    vectors.size = what == Serves::embeddings ? 4 : 1;
    vectors.whole_prompt = whole_prompt;
  }
  void use_template(const ChatTemplate* chat_template) { server_.api.chat_template = chat_template; }

  std::vector<Route> routes() const { return all_routes(all_protocols()); }

  struct Outcome {
    std::string wrong = {};  // empty: all checks passed
    Status refused = {};     // reason for refusing the body
  };
  // `how` chooses the sizes of the answer's pieces and how it ends.
  Outcome answer(const Route& route, std::string body, std::string parameter = {}, unsigned how = 5) {
    ApiCall call;
    call.method = route.facts.method;
    call.path = route.facts.path;
    call.parameter = std::move(parameter);
    call.body = std::move(body);
    call.id = concat("id", ++num_calls_);
    Outcome outcome;
    try {
      std::visit([&](auto handler) { outcome = ask(handler, call, route, how); }, route.handler);
    } catch (const std::exception& error) {
      outcome.wrong = concat("an exception came out: ", error.what());
    }
    server_.kept_answers.check_invariants();
    return outcome;
  }

 private:
  // Has the tokens for filling in the middle.
  class Tokens final : public FakeTokenizer {
   public:
    std::optional<TokenId> find(std::string_view token) const override {
      constexpr std::string_view kMarkers[] = {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"};
      for (TokenId id = 0; id < 3; ++id)
        if (token == kMarkers[id]) return id + 1;
      return FakeTokenizer::find(token);
    }
  };

  static ServerConfig config() {
    ServerConfig config;
    config.runtime_adapters = true;
    return config;
  }

  const ApiContext& context() {
    model_.context.tokenizer = &tokens_;
    model_.context.grammars = &grammars_;
    model_.context.tool_parser = "hermes";
    model_.context.reasoning_parser = "qwen3";
    model_.context.adapters = &adapters_;
    CHECK(adapters_.load("adapter", "path", true));
    return model_.context;
  }

  static std::string check_error(const Route& route, const Status& status) {
    const ApiError error = api_error(status);
    const std::string body = route.protocol == nullptr ? all_protocols().at(0)->error_body(error)
                                                       : route.protocol->error_body(error);
    if (!parse_json(body)) return concat("an error that is no JSON: ", body);
    const int http = http_status(status);
    if ((http >= 400 && http < 500) || http == 501) return {};
    return concat("status ", http, ": ", status.message());
  }

  Outcome ask(AnswerHandler handler, const ApiCall& call, const Route& route, unsigned) {
    const Result<ApiAnswer> answer = handler(call, server_.api);
    if (!answer) return {.wrong = check_error(route, answer.error()), .refused = answer.error()};
    std::string_view rest = answer->body;
    const bool lines = answer->content_type == "application/x-ndjson";
    do {
      const std::size_t end = lines ? rest.find('\n') : std::string_view::npos;
      if (!parse_json(rest.substr(0, end))) return {.wrong = concat("an answer that is no JSON: ", rest)};
      rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    } while (!rest.empty());
    return {};
  }
  Outcome ask(GenerationHandler handler, const ApiCall& call, const Route& route, unsigned how) {
    Result<ApiGeneration> made = handler(call, server_.api);
    if (!made) return {.wrong = check_error(route, made.error()), .refused = made.error()};
    for (const GrammarSpec& grammar : made->grammars) {
      if (const auto compiled = CheckedGrammars().compile(grammar); !compiled)
        if (std::string wrong = check_error(route, compiled.error()); !wrong.empty())
          return {.wrong = std::move(wrong)};
    }
    return {.wrong = check_generation(*std::move(made), how)};
  }
  Outcome ask(ServerHandler handler, const ApiCall& call, const Route&, unsigned) {
    const HttpResponse response = handler(call, server_);
    if (response.status >= 500) return {.wrong = concat("status ", response.status)};
    return {.refused = response.status < 400 ? Status() : invalid_argument(response.body)};
  }
  Outcome ask(WaitHandler handler, const ApiCall& call, const Route& route, unsigned) {
    const auto wait = handler(call, server_, [] {});
    if (!wait) return {.wrong = check_error(route, wait.error()), .refused = wait.error()};
    while (!(*wait)->ready()) std::this_thread::yield();
    return {};
  }
  Outcome ask(StreamHandler handler, const ApiCall& call, const Route& route, unsigned) {
    const auto stream = handler(call, server_, [] {});
    if (!stream) return {.wrong = check_error(route, stream.error()), .refused = stream.error()};
    return {};
  }

  std::string check_generation(ApiGeneration call, unsigned how) const {
    const ApiContext& context = server_.api;
    for (const Request& request : call.requests) {
      if (request.prompt_token_ids.empty()) return "an empty prompt";
      if ((request.sampling.max_tokens == 0) != request.work.pools()) return "nothing to make";
      const auto length =
          static_cast<std::int64_t>(request.prompt_token_ids.size()) + request.sampling.max_tokens;
      if (length > context.max_model_len) return concat("a request of ", length, " tokens");
      for (const TokenId id : request.prompt_token_ids)
        if (id < 0 || id >= context.vocab_size) return concat("token id ", id);
    }
    constexpr std::string_view kSaid =
        "<think>h\xc3\xa9</think>Ok <tool_call>{\"name\": \"f\", \"arguments\": {\"a\": "
        "[1,\n2]}}</tool_call> end";
    const std::size_t step = 1 + how % 16;
    const FinishReason reason = (how & 16) != 0 ? FinishReason::length : FinishReason::stop;
    std::string out;
    const auto take_all = [&] {
      while (call.answer->take(out, std::size_t{1} << 20)) {
      }
    };
    for (std::size_t prompt = 0; prompt < call.requests.size(); ++prompt) {
      const Request& request = call.requests[prompt];
      for (std::size_t at = 0; at < kSaid.size(); at += step) {
        const bool last = at + step >= kSaid.size();
        RequestOutput output;
        for (std::int32_t i = 0; i < request.sampling.n; ++i) {
          output.deltas.push_back(delta_of(kSaid.substr(at, step), i));
          if (request.work.pools() && last) output.deltas.back().vector.assign(4, static_cast<float>(how));
          if (last) output.deltas.back().finish_reason = reason;
        }
        output.finished = last;
        call.answer->add(prompt, std::move(output));
        (void)call.answer->take_stops();
        take_all();
        if ((how & 32) != 0) call.answer->fail(unavailable("Gone."));
      }
    }
    take_all();
    if (!call.answer->finished()) return "an answer that does not end";
    if (!call.answer->streaming() && call.answer->error().ok() && !parse_json(out))
      return concat("an answer that is no JSON: ", out);
    return {};
  }

  std::int64_t num_calls_ = 0;
  FakeEngine engine_;
  MetricsRegistry metrics_;
  TestModel model_;
  Tokens tokens_;
  FakeAdapters adapters_{/*keeps=*/true};
  GrammarService grammars_;
  ServerContext server_;
};

}  // namespace pagoda
