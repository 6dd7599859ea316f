// Connection: an answer that the engine makes, from the parsed call to its last piece.
#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <charconv>

#include "api/answer_memory.h"
#include "base/ends.h"
#include "base/strings.h"
#include "constraint/grammar_service.h"
#include "server/connection.h"
#include "server/deadline.h"
#include "server/endpoints.h"
#include "server/keys/key_policy.h"
#include "text/stop_constraint.h"

namespace pagoda {
namespace {

namespace asio = boost::asio;

constexpr std::size_t kPieceBytes = std::size_t{64} << 10;  // written of a long answer at a time
constexpr std::int64_t kLargeAnswer = std::int64_t{1} << 20;
constexpr std::int64_t kEventBytes = 256;  // a token in a stream

std::int64_t prompt_bytes(std::span<const Request> requests) {
  std::size_t bytes = 0;
  for (const Request& request : requests)
    bytes += request.prompt_token_ids.capacity() * sizeof(TokenId) + sizeof(Request);
  return static_cast<std::int64_t>(bytes);
}

std::int64_t num_output_tokens(std::span<const Request> requests) {
  std::int64_t tokens = 0;
  for (const Request& request : requests) tokens += request.sampling.width() * request.sampling.max_tokens;
  return tokens;
}

// The answer's memory, out of what all of them may have.
Result<MemoryReservation> reserve_answer(const ApiGeneration& call, ServerContext& server) {
  std::int64_t bytes = answer_bytes(call.requests);
  if (call.answer != nullptr) bytes += num_output_tokens(call.requests) * call.answer->held_bytes_per_token();
  if (call.answer != nullptr && call.answer->streaming())
    bytes += std::min(static_cast<std::int64_t>(server.config.max_unsent_bytes),
                      num_output_tokens(call.requests) * kEventBytes);
  if (std::optional<MemoryReservation> held =
          server.memory.ledger().try_reserve(server.memory.answers(), bytes))
    return *std::move(held);
  if (const std::int64_t limit = server.memory.limit_of(server.memory.answers()); bytes > limit)
    return invalid_argument(
        concat("The answer could take ", bytes, " bytes of memory, and all answers together may have ", limit,
               " (--max-answer-memory). Ask for fewer tokens, choices or log-probabilities in one call."));
  return resource_exhausted("All memory for answers is in use; please try again.")
      .with_reason("answer_memory_full");
}

// Before it runs: the call's own words. The rest once it has ended.
RequestSpan span_of(const Route& route, const ApiGeneration& call, const ApiContext& api) {
  RequestSpan span;
  span.path = route.facts.path;
  span.id = call.id;
  span.model = api.model_names.front();
  const Request* request = first_of(call.requests);
  if (request == nullptr) return span;
  const SamplingParams& sampling = request->sampling;
  span.n = sampling.n;
  span.max_tokens = sampling.max_tokens;
  span.temperature = sampling.temperature;
  span.top_p = sampling.top_p;
  return span;
}

// The engine that the client selects, as routers for vLLM do; a value that is not a number selects none.
std::optional<std::int32_t> data_parallel_rank(const ApiCall& call) {
  const std::string_view text = call.header("x-data-parallel-rank");
  std::int32_t rank = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return rank;
}

}  // namespace

asio::awaitable<Connection::Next> Connection::answer_generation(const Route& route, GenerationHandler handler,
                                                                std::shared_ptr<ApiCall> call) {
  // Refuse before reading the body if the queue is already too long: nothing is parsed, and no other thread
  // waited for.
  if (const auto refused = server_.engine.refuse_unread(tenant()))
    co_return co_await send(refusal_after(refused->status, route.protocol, refused->wait_s));
  const std::size_t bytes = call->body.size();
  auto parsed = std::make_shared<std::optional<Result<ApiGeneration>>>();
  auto text = std::make_shared<MemoryReservation>();  // for reading the body, then for the parsed request
  const ApiContext* api = &server_.context_for(*key_);
  ServerContext* server = &server_;
  std::function<void()> work = [parsed, text, call, handler, api, server] {
    Result<MemoryReservation> held = server->memory.text(call->body);
    if (!held) {
      parsed->emplace(held.error());
      return;
    }
    *text = *std::move(held);
    parsed->emplace(handler(*call, *api));
    if (!parsed->value().has_value())
      text->reset();
    else
      (void)text->try_resize(std::min(text->bytes(), prompt_bytes((**parsed)->requests)));
  };
  const Status done = co_await run_job(route.facts.cost, bytes, std::move(work));
  if (gone()) co_return Next::gone;
  if (!done.ok()) co_return co_await send(error_response(done, route.protocol));
  if (!parsed->value().has_value())
    co_return co_await send(error_response(parsed->value().error(), route.protocol));
  const std::optional<std::int32_t> rank = data_parallel_rank(*call);
  call.reset();
  release_body();
  ApiGeneration generation = std::move(**parsed).value();
  for (Request& request : generation.requests) request.data_parallel_rank = rank;
  const Status compiled = co_await compile_grammar(generation);
  warning_ = generation.warnings.header();
  if (!compiled.ok()) co_return gone() ? Next::gone : co_await send(error_response(compiled, route.protocol));
  text->reset();  // the prompts count among what the answer takes
  co_return co_await generate(route, std::move(generation));
}

asio::awaitable<Status> Connection::compile_grammar(ApiGeneration& generation) {
  using Outcome = std::optional<Result<CompiledConstraint>>;
  Status refused = ok_status();
  for (GrammarSpec& grammar : generation.grammars) {
    auto outcome = std::make_shared<Outcome>();
    auto done = [outcome, self = shared_from_this()](Result<CompiledConstraint> compiled) {
      asio::post(self->stream_.get_executor(), [outcome, self, compiled = std::move(compiled)]() mutable {
        outcome->emplace(std::move(compiled));
        self->event_.set();
      });
    };
    CHECK(server_.api.grammars != nullptr);  // or the call would have been refused
    const std::uint64_t owner = std::hash<std::string_view>{}(tenant());
    const std::string param = grammar.param;
    std::vector<std::string> left_out = std::move(grammar.left_out);
    server_.api.grammars->compile(owner, std::move(grammar), std::move(done));
    while (!outcome->has_value()) {
      co_await event_.wait();
      if (gone()) co_return unavailable("The client has disconnected.");
    }
    Result<CompiledConstraint>& compiled = **outcome;
    if (compiled) {
      left_out.insert(left_out.end(), compiled->left_out.begin(), compiled->left_out.end());
      for (const std::string& part : left_out)
        generation.warnings.add(param, concat("not enforced in the schema: ", part));
      for (Request& request : generation.requests)
        request.constraint = both_constraints(compiled->factory, std::move(request.constraint));
      co_return ok_status();
    }
    refused = compiled.error();
    if (refused.code() != StatusCode::invalid_argument) break;
  }
  co_return refused;
}

asio::awaitable<Connection::Next> Connection::generate(const Route& route, ApiGeneration parsed) {
  if (Status refused = apply_key(*key_, peer_, server_.isolates_prefixes(), parsed.requests); !refused.ok())
    co_return co_await send(error_response(refused, route.protocol));
  const TokenNeed need = tokens_needed(parsed.requests);
  std::int64_t taken = 0;
  if (auto refused = key_->account->limit.take_tokens(need.all, need.prompts, server_.clock.now(), taken))
    co_return co_await send(rate_limit_response(*refused, route.protocol));
  co_return co_await run_generation(route, std::move(parsed), taken);
}

asio::awaitable<Connection::Next> Connection::run_generation(const Route& route, ApiGeneration parsed,
                                                             std::int64_t taken_tokens) {
  const Counted generating(server_.num_generating);
  for (Request& request : parsed.requests)
    if (request.tenant.empty()) request.tenant = peer_;  // whoever has no name
  Result<MemoryReservation> memory = reserve_answer(parsed, server_);
  if (!memory) {
    key_->account->limit.settle(taken_tokens, 0, server_.clock.now());
    co_return co_await send(error_response(memory.error(), route.protocol));
  }
  QueueKey whose;
  if (const Request* request = first_of(parsed.requests))
    whose = {.tenant = request->tenant, .priority = request->priority};
  std::string name = parsed.id;
  const TimeNs deadline = deadline_after(begun_, timeout_s_, parsed.timeout_s);
  const auto account = [key = key_, &server = server_, taken_tokens](const Generation& ended) {
    const UsedTokens used = ended.used();
    key->account->usage.add_tokens(used);
    key->account->limit.settle(taken_tokens, used.prompt + used.completion, server.clock.now());
  };
  if (parsed.at_once) {
    HttpResponse response;
    response.body = *std::move(parsed.at_once);
    const std::shared_ptr<AnswerLog> log = std::move(parsed.follow);
    const std::uint64_t id = server_.next_request_id.fetch_add(parsed.requests.size());
    if (const Status refused = server_.background.start(std::move(parsed), *std::move(memory), id,
                                                        server_.clock.now(), deadline, account);
        !refused.ok()) {
      key_->account->limit.settle(taken_tokens, 0, server_.clock.now());
      co_return co_await send(refusal(refused, route.protocol, whose));
    }
    if (log != nullptr) co_return co_await follow(log, 0);
    co_return co_await send(std::move(response));
  }
  RequestSpan span;
  if (server_.config.spans != nullptr) span = span_of(route, parsed, server_.api);
  auto call = std::make_shared<Generation>(std::move(parsed), server_.engine, *std::move(memory), waker());
  const std::uint64_t first_id =
      server_.next_request_id.fetch_add(std::max<std::size_t>(call->num_requests(), 1));
  const LiveCalls::Entry listed(server_.live_calls, std::move(name), first_id, call->num_requests());
  Next next = Next::gone;
  if (const Status refused = call->start(first_id, server_.clock.now(), deadline); !refused.ok()) {
    next = co_await send(refusal(refused, route.protocol, whose));
  } else {
    call_ = call.get();
    next = co_await deliver(route, call);
    call_ = nullptr;
  }
  call->cancel();
  account(*call);
  if (server_.config.spans != nullptr) tell_span(std::move(span), *call);
  // Hundreds of thousands of lists take their time to go, too.
  if (call->held_bytes() > kLargeAnswer) {
    std::function<void()> dispose = [call = std::move(call)] {};
    (void)server_.jobs.submit(
        {.owner = std::string(tenant()), .cost = 0, .work = std::move(dispose), .done = nullptr});
  }
  co_return gone() ? Next::gone : next;
}

void Connection::tell_span(RequestSpan span, const Generation& call) const {
  const UsedTokens used = call.used();
  span.traceparent = traceparent_;
  span.begun = begun_;
  span.ended = server_.clock.now();
  span.times = call.times();
  span.prompt_tokens = used.prompt;
  span.cached_tokens = used.cached;
  span.completion_tokens = used.completion;
  span.hung_up = gone();
  span.error = call.error().message();
  server_.config.spans->on_span(std::move(span));
}

asio::awaitable<Connection::Next> Connection::deliver(const Route& route, std::shared_ptr<Generation> call) {
  const AnswerForm form = call->streaming() ? route.facts.form : AnswerForm::json;
  bool head_sent = false;
  StreamBeat beat = make_beat();
  while (!gone()) {
    if (state_ == ConnectionState::draining) call->fail(unavailable("The server is shutting down."));
    if (!server_.engine.healthy()) call->fail(unavailable("The engine has stopped."));
    std::string piece;
    bool more = false;
    if (head_sent && !call->streaming()) {  // the rest of a long answer
      more = co_await build_piece(call, piece);
      if (gone()) break;
    } else {
      more = call->pump(piece, server_.config.max_unsent_bytes);
    }
    const bool last = call->finished() && !more;
    // Text that a client is to have comes before the error that ended it, however late this is reached.
    const bool has_text = call->streaming() && call->used().completion > 0;
    if (call->finished() && !head_sent && !has_text && !call->answer().error().ok())
      co_return co_await send(error_response(call->answer().error(), route.protocol));
    if (last && !head_sent && !call->streaming()) {
      HttpResponse response;
      response.body = std::move(piece);
      co_return co_await send(std::move(response));
    }
    // Events that the call is accepted and in progress are sent before anything is computed.
    const bool waits = call->streaming() && piece.empty() && !more && !last;
    if (waits && form == AnswerForm::sse && !head_sent)
      call->open(piece);
    else if (waits && form == AnswerForm::sse && beat.is_due())
      call->ping(piece);
    if (!piece.empty() || last || (waits && !head_sent)) {
      beat.restart();
      std::string out;
      if (!std::exchange(head_sent, true)) out = stream_head(form);
      if (framing_.minor_version == 1)
        append_chunk(out, piece);
      else
        out.append(piece);
      if (last && framing_.minor_version == 1) out.append(kLastChunk);
      if (!co_await write(out)) {
        on(ConnectionEvent::peer_left);
        break;
      }
      call->shrink();
    }
    if (last) co_return framing_.minor_version == 1 && framing_.keep_alive ? Next::keep_alive : Next::close;
    if (more) {
      co_await yield();
    } else {
      if (form == AnswerForm::sse) beat.arm();
      co_await event_.wait();
    }
  }
  co_return Next::gone;
}

// The next piece of an answer that is complete. False: it was the last.
asio::awaitable<bool> Connection::build_piece(std::shared_ptr<Generation> call, std::string& piece) {
  struct Piece {
    std::string text;
    bool more = false;
  };
  auto built = std::make_shared<Piece>();
  std::function<void()> work = [built, call] { built->more = call->answer().take(built->text, kPieceBytes); };
  const Status done = co_await run_job(Cost::text, kPieceBytes, std::move(work));
  if (gone()) co_return false;
  // If the pool is full, the piece is written here rather than breaking off the answer.
  if (!done.ok()) built->more = call->answer().take(built->text, kPieceBytes);
  piece = std::move(built->text);
  co_return built->more;
}

}  // namespace pagoda
