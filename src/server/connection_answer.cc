// Connection: from a request to its answer.
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cmath>
#include <ctime>

#include "api/answer_memory.h"
#include "base/log.h"
#include "base/strings.h"
#include "constraint/grammar_service.h"
#include "server/connection.h"
#include "server/deadline.h"
#include "server/endpoints.h"

namespace pagoda {
namespace {

namespace asio = boost::asio;

constexpr std::size_t kOneWrite = std::size_t{16} << 10;    // a body up to this goes out with its head
constexpr std::size_t kPieceBytes = std::size_t{64} << 10;  // of a long answer, built at a time
constexpr std::int64_t kLargeAnswer = std::int64_t{1} << 20;

std::string_view content_type_of(AnswerForm form) {
  switch (form) {
    case AnswerForm::sse:
      return "text/event-stream; charset=utf-8";
    case AnswerForm::ndjson:
      return "application/x-ndjson";
    case AnswerForm::text:
      return "text/plain; charset=utf-8";
    case AnswerForm::file:
      return "application/octet-stream";
    case AnswerForm::json:
      return "application/json";
  }
  return "";
}

// The answer's memory, out of what all of them may have.
Result<MemoryReservation> reserve_answer(const ApiGeneration& call, ServerContext& server) {
  const std::int64_t bytes = answer_bytes(call.requests);
  if (std::optional<MemoryReservation> held = server.memory.try_reserve(server.answers, bytes))
    return *std::move(held);
  if (bytes > server.memory.limit())
    return invalid_argument(
        concat("The answer could take ", bytes, " bytes of memory, and all answers together may have ",
               server.memory.limit(), " (--max-answer-memory). Ask for fewer tokens, choices or ",
               "log-probabilities in one call."));
  return resource_exhausted("The answers being made take all the memory there is for them; please try again.")
      .with_reason("answer_memory_full");
}

}  // namespace

asio::awaitable<Connection::Next> Connection::answer(const HttpRequest& request,
                                                     const RouteTable::Match& match) {
  std::optional<HttpResponse> early = answer_from_head(request, match, server_);
  if (!early && over_limit_ && match.role != Role::anyone &&
      server_.num_connections.load() > server_.config.max_connections) {
    early = error_response(unavailable("Too many connections."), match.protocol);
    early->close = true;
  }
  if (!early && std::holds_alternative<GenerationHandler>(match.route->handler)) {
    const Result<std::optional<double>> timeout = timeout_of_headers(
        request.header("x-request-timeout"), request.header("x-envoy-expected-rq-timeout-ms"));
    if (!timeout)
      early = error_response(timeout.error(), match.protocol);
    else
      timeout_s_ = *timeout;
  }
  if (early && request.has_body()) {
    early->close = true;  // the body stays unread
    co_return co_await send(std::move(*early));
  }
  if (!early && request.expects_continue && request.has_body() && request.minor_version == 1) {
    if (!co_await write("HTTP/1.1 100 Continue\r\n\r\n")) co_return Next::gone;
  }
  auto call = std::make_shared<ApiCall>();
  std::optional<HttpError> error =
      co_await read_body(request, max_body_bytes(match, server_.config), call->body);
  if (gone_) co_return Next::gone;
  if (error) {
    HttpResponse response =
        error_response({.status = error->status, .message = error->message}, match.protocol);
    response.close = true;
    co_return co_await send(std::move(response));
  }
  if (early) co_return co_await send(std::move(*early));

  std::optional<std::string> parameter = percent_decode(match.rest);
  if (!parameter)
    co_return co_await send(error_response(
        {.status = 400, .message = "The last part of the path is malformed."}, match.protocol));
  call->parameter = *std::move(parameter);
  call->method = match.route->facts.method;
  call->path = match.route->facts.path;
  call->headers = request.headers;
  call->id = request_id_;
  call->created = std::time(nullptr);
  co_return co_await answer_call(*match.route, std::move(call));
}

asio::awaitable<Connection::Next> Connection::answer_call(const Route& route, std::shared_ptr<ApiCall> call) {
  const auto* generation = std::get_if<GenerationHandler>(&route.handler);
  const auto* wait = std::get_if<WaitHandler>(&route.handler);
  const bool at_once = generation == nullptr && wait == nullptr && route.facts.cost == Cost::trifle;
  if (at_once) co_return co_await answer_whole(route, std::move(call));
  stream_.expires_never();
  watch();
  Next next = Next::gone;
  if (generation != nullptr)
    next = co_await answer_generation(route, *generation, std::move(call));
  else if (wait != nullptr)
    next = co_await answer_when_ready(route, *wait, std::move(call));
  else
    next = co_await answer_whole(route, std::move(call));
  co_await stop_watching();
  co_return gone_ ? Next::gone : next;
}

// Each of the three shares with its job what the job works on: a coroutine's frame may be gone first.
asio::awaitable<Connection::Next> Connection::answer_whole(const Route& route,
                                                           std::shared_ptr<ApiCall> call) {
  const std::size_t bytes = call->body.size();
  auto response = std::make_shared<HttpResponse>();
  ServerContext* server = &server_;
  const Route* row = &route;
  std::function<void()> work = [response, call, server, row] {
    if (const auto* handler = std::get_if<ServerHandler>(&row->handler)) {
      *response = (*handler)(*call, *server);
      return;
    }
    Result<ApiAnswer> answer = std::get<AnswerHandler>(row->handler)(*call, server->api);
    if (!answer) {
      *response = error_response(answer.error(), row->protocol);
      return;
    }
    response->status = answer->status;
    response->content_type = std::move(answer->content_type);
    response->body = std::move(answer->body);
  };
  if (Status done = co_await run_job(route.facts.cost, bytes, std::move(work)); !done.ok())
    *response = error_response(done, route.protocol);
  if (gone_) co_return Next::gone;
  co_return co_await send(std::move(*response));
}

asio::awaitable<Connection::Next> Connection::answer_when_ready(const Route& route, WaitHandler handler,
                                                                std::shared_ptr<ApiCall> call) {
  const std::size_t bytes = call->body.size();
  auto wait = std::make_shared<std::optional<Result<std::shared_ptr<EngineWait>>>>();
  ServerContext* server = &server_;
  std::function<void()> ask = [wait, call, handler, server, wake = waker()] {
    wait->emplace(handler(*call, *server, wake));
  };
  if (Status done = co_await run_job(route.facts.cost, bytes, std::move(ask)); !done.ok())
    co_return co_await send(error_response(done, route.protocol));
  if (!wait->value().has_value())
    co_return co_await send(error_response(wait->value().error(), route.protocol));
  const std::shared_ptr<EngineWait> ready = **wait.get()->operator->();
  const auto limit = ready->limit();
  asio::steady_timer late(stream_.get_executor(), limit);
  if (limit.count() > 0)
    late.async_wait([weak = weak_from_this()](boost::system::error_code) {
      if (const auto self = weak.lock()) self->event_.set();
    });
  while (!gone_ && !ready->ready()) {
    if (!server_.engine.healthy())
      co_return co_await send(error_response(unavailable("The engine has stopped."), route.protocol));
    if (limit.count() > 0 && late.expiry() <= std::chrono::steady_clock::now())
      co_return co_await send(
          error_response(unavailable("The engine is busy with a long step; try again."), route.protocol));
    co_await event_.wait();
  }
  if (gone_) co_return Next::gone;
  auto response = std::make_shared<HttpResponse>();
  std::function<void()> build = [response, ready, server] { *response = ready->answer(*server); };
  if (Status done = co_await run_job(Cost::text, kPieceBytes, std::move(build)); !done.ok())
    co_return co_await send(error_response(done, route.protocol));
  if (gone_) co_return Next::gone;
  co_return co_await send(std::move(*response));
}

asio::awaitable<Connection::Next> Connection::answer_generation(const Route& route, GenerationHandler handler,
                                                                std::shared_ptr<ApiCall> call) {
  const std::size_t bytes = call->body.size();
  auto parsed = std::make_shared<std::optional<Result<ApiGeneration>>>();
  const ApiContext* api = &server_.api;
  std::function<void()> work = [parsed, call, handler, api] { parsed->emplace(handler(*call, *api)); };
  const Status done = co_await run_job(route.facts.cost, bytes, std::move(work));
  if (gone_) co_return Next::gone;
  if (!done.ok()) co_return co_await send(error_response(done, route.protocol));
  if (!parsed->value().has_value())
    co_return co_await send(error_response(parsed->value().error(), route.protocol));
  call.reset();
  release_body();
  ApiGeneration generation = std::move(**parsed).value();
  if (const Status compiled = co_await compile_grammar(generation); !compiled.ok())
    co_return gone_ ? Next::gone : co_await send(error_response(compiled, route.protocol));
  co_return co_await generate(route, std::move(generation));
}

asio::awaitable<Status> Connection::compile_grammar(ApiGeneration& generation) {
  using Outcome = std::optional<Result<GrammarService::Factory>>;
  Status refused = ok_status();
  for (GrammarSpec& grammar : generation.grammars) {
    auto outcome = std::make_shared<Outcome>();
    auto done = [outcome, self = shared_from_this()](Result<GrammarService::Factory> compiled) {
      asio::post(self->stream_.get_executor(), [outcome, self, compiled = std::move(compiled)]() mutable {
        outcome->emplace(std::move(compiled));
        self->event_.set();
      });
    };
    CHECK(server_.api.grammars != nullptr);  // or the call would have been refused
    server_.api.grammars->compile(id_, std::move(grammar), std::move(done));
    while (!outcome->has_value()) {
      co_await event_.wait();
      if (gone_) co_return unavailable("The client has gone.");
    }
    Result<GrammarService::Factory>& compiled = **outcome;
    if (compiled) {
      for (Request& request : generation.requests) request.constraint = *compiled;
      co_return ok_status();
    }
    refused = compiled.error();
    if (refused.code() != StatusCode::invalid_argument) break;
  }
  co_return refused;
}

asio::awaitable<Connection::Next> Connection::generate(const Route& route, ApiGeneration parsed) {
  const Counted generating(server_.num_generating);
  Result<MemoryReservation> memory = reserve_answer(parsed, server_);
  if (!memory) co_return co_await send(error_response(memory.error(), route.protocol));
  std::string name = parsed.id;
  const TimeNs deadline = deadline_after(begun_, timeout_s_, parsed.timeout_s);
  auto call = std::make_shared<Generation>(std::move(parsed), server_.engine, *std::move(memory), waker());
  const std::uint64_t first_id = server_.next_request_id.fetch_add(call->num_requests());
  const LiveCalls::Entry listed(server_.live_calls, std::move(name), first_id, call->num_requests());
  Next next = Next::gone;
  if (const Status refused = call->start(first_id, server_.clock.now(), deadline); !refused.ok()) {
    next = co_await send(refusal(refused, route.protocol));
  } else {
    call_ = call.get();
    next = co_await deliver(route, call);
    call_ = nullptr;
  }
  call->cancel();
  // Hundreds of thousands of lists take their time to go, too.
  if (call->held_bytes() > kLargeAnswer) {
    std::function<void()> dispose = [call = std::move(call)] {};
    (void)server_.jobs.submit({.owner = id_, .cost = 0, .work = std::move(dispose), .done = nullptr});
  }
  co_return gone_ ? Next::gone : next;
}

asio::awaitable<Connection::Next> Connection::deliver(const Route& route, std::shared_ptr<Generation> call) {
  const AnswerForm form = call->streaming() ? route.facts.form : AnswerForm::json;
  bool head_sent = false;
  while (!gone_) {
    if (shutting_down_) call->fail(unavailable("The server is shutting down."));
    if (!server_.engine.healthy()) call->fail(unavailable("The engine has stopped."));
    std::string piece;
    bool more = false;
    if (head_sent && !call->streaming()) {  // the rest of a long answer
      more = co_await build_piece(call, piece);
      if (gone_) break;
    } else {
      more = call->pump(piece, server_.config.max_unsent_bytes);
    }
    const bool last = call->finished() && !more;
    if (call->finished() && !head_sent && !call->answer().error().ok())
      co_return co_await send(error_response(call->answer().error(), route.protocol));
    if (last && !head_sent && !call->streaming()) {
      HttpResponse response;
      response.body = std::move(piece);
      co_return co_await send(std::move(response));
    }
    if (!piece.empty() || last) {
      std::string out;
      if (!std::exchange(head_sent, true)) out = stream_head(form);
      if (framing_.minor_version == 1)
        append_chunk(out, piece);
      else
        out.append(piece);
      if (last && framing_.minor_version == 1) out.append(kLastChunk);
      if (!co_await write(out)) {
        gone_ = true;
        break;
      }
      call->shrink();
    }
    if (last) co_return framing_.minor_version == 1 && framing_.keep_alive ? Next::keep_alive : Next::close;
    if (more)
      co_await yield();
    else
      co_await event_.wait();
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
  if (gone_) co_return false;
  // A full pool is no reason to break off an answer.
  if (!done.ok()) built->more = call->answer().take(built->text, kPieceBytes);
  piece = std::move(built->text);
  co_return built->more;
}

asio::awaitable<Status> Connection::run_job(Cost cost, std::size_t bytes, std::function<void()> work) {
  if (cost == Cost::trifle) {
    work();
    co_return ok_status();
  }
  struct Outcome {
    bool done = false;
    JobPool::End end = JobPool::End::done;
  };
  auto outcome = std::make_shared<Outcome>();  // the connection may be torn down at exit first
  JobPool::Job job{.owner = id_, .cost = bytes, .work = std::move(work), .done = nullptr};
  if (timeout_s_) job.deadline = deadline_after(begun_, timeout_s_, std::nullopt);
  job.done = [outcome, self = shared_from_this()](JobPool::End end) {
    asio::post(self->stream_.get_executor(), [outcome, end, self] {
      *outcome = {.done = true, .end = end};
      self->event_.set();
    });
  };
  const Result<JobPool::JobId> id = server_.jobs.submit(std::move(job));
  if (!id) co_return id.error();
  while (!outcome->done) {
    co_await event_.wait();
    if (gone_ && !outcome->done && server_.jobs.cancel(*id)) co_return unavailable("The client has gone.");
  }
  if (outcome->end == JobPool::End::late && timeout_s_ &&
      server_.clock.now() >= deadline_after(begun_, timeout_s_, std::nullopt))
    co_return Status(StatusCode::deadline_exceeded, "The request's time is up.")
        .with_reason("deadline_exceeded");
  if (outcome->end == JobPool::End::late)
    co_return resource_exhausted("The request waited too long to be read; please try again.");
  if (outcome->end == JobPool::End::out_of_memory) {
    log_error("server", "a request could not be served for lack of memory");
    co_return internal_error("out of memory");
  }
  co_return ok_status();
}

// What the engine would not take, with the time after which it may.
HttpResponse Connection::refusal(const Status& status, const Protocol* protocol) const {
  HttpResponse response = error_response(status, protocol);
  if (status.code() != StatusCode::resource_exhausted) return response;
  const double wait = std::ceil(server_.engine.expected_wait({}, 0));
  for (auto& [name, value] : response.headers)
    if (name == "retry-after") value = concat(static_cast<std::int64_t>(std::clamp(wait, 1.0, 3600.0)));
  return response;
}

void Connection::add_common_headers(HttpResponse& response) const {
  response.headers.emplace_back("x-request-id", request_id_);
  if (origin_.empty()) return;
  response.headers.emplace_back("access-control-allow-origin", origin_);
  response.headers.emplace_back("access-control-expose-headers", "x-request-id");
  response.headers.emplace_back("vary", "origin");
}

asio::awaitable<Connection::Next> Connection::send(HttpResponse response) {
  add_common_headers(response);
  status_ = response.status;
  const Next next = framing_.keep_alive && !response.close ? Next::keep_alive : Next::close;
  std::string head = write_head(response, framing_);
  if (framing_.head_only) response.body.clear();
  if (response.body.size() <= kOneWrite) {
    head.append(response.body);
    response.body.clear();
  }
  if (!co_await write(head)) co_return Next::gone;
  if (!response.body.empty() && !co_await write(response.body)) co_return Next::gone;
  co_return next;
}

std::string Connection::stream_head(AnswerForm form) {
  HttpResponse response;
  add_common_headers(response);
  response.content_type = content_type_of(form);
  if (form == AnswerForm::sse || form == AnswerForm::ndjson) {
    response.headers.emplace_back("cache-control", "no-cache");
    response.headers.emplace_back("x-accel-buffering", "no");
  }
  status_ = 200;
  if (framing_.minor_version == 0) framing_.keep_alive = false;
  return write_stream_head(response, framing_);
}

// Lets the other connections have their turn.
asio::awaitable<void> Connection::yield() {
  co_await asio::post(stream_.get_executor(), asio::use_awaitable);
}

}  // namespace pagoda
