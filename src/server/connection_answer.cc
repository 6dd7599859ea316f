// Connection: from a request to its answer.
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <ctime>
#include <exception>

#include "base/log.h"
#include "base/strings.h"
#include "server/connection.h"
#include "server/endpoints.h"

namespace pagoda {
namespace {

namespace asio = boost::asio;

constexpr std::size_t kOneWrite = std::size_t{16} << 10;  // a body up to this goes out with its head

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

}  // namespace

asio::awaitable<Connection::Next> Connection::answer(const HttpRequest& request,
                                                     const RouteTable::Match& match) {
  std::optional<HttpResponse> early = answer_from_head(request, match, server_);
  if (early && request.has_body()) {
    early->close = true;  // the body stays unread
    co_return co_await send(std::move(*early));
  }
  if (!early && request.expects_continue && request.has_body()) {
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
  if (Status done = co_await run_at(route.facts.cost, std::move(work)); !done.ok())
    *response = error_response(done, route.protocol);
  if (gone_) co_return Next::gone;
  co_return co_await send(std::move(*response));
}

asio::awaitable<Connection::Next> Connection::answer_when_ready(const Route& route, WaitHandler handler,
                                                                std::shared_ptr<ApiCall> call) {
  auto wait = std::make_shared<std::optional<Result<std::shared_ptr<EngineWait>>>>();
  ServerContext* server = &server_;
  std::function<void()> ask = [wait, call, handler, server, wake = waker()] {
    wait->emplace(handler(*call, *server, wake));
  };
  if (Status done = co_await run_at(route.facts.cost, std::move(ask)); !done.ok())
    co_return co_await send(error_response(done, route.protocol));
  if (!wait->value().has_value())
    co_return co_await send(error_response(wait->value().error(), route.protocol));
  const std::shared_ptr<EngineWait> ready = **wait.get()->operator->();
  while (!gone_ && !ready->ready()) {
    if (!server_.engine.healthy())
      co_return co_await send(error_response(unavailable("The engine has stopped."), route.protocol));
    co_await event_.wait();
  }
  if (gone_) co_return Next::gone;
  auto response = std::make_shared<HttpResponse>();
  std::function<void()> build = [response, ready, server] { *response = ready->answer(*server); };
  if (Status done = co_await run_at(Cost::text, std::move(build)); !done.ok())
    co_return co_await send(error_response(done, route.protocol));
  if (gone_) co_return Next::gone;
  co_return co_await send(std::move(*response));
}

asio::awaitable<Connection::Next> Connection::answer_generation(const Route& route, GenerationHandler handler,
                                                                std::shared_ptr<ApiCall> call) {
  auto parsed = std::make_shared<std::optional<Result<ApiGeneration>>>();
  const ApiContext* api = &server_.api;
  std::function<void()> work = [parsed, call, handler, api] { parsed->emplace(handler(*call, *api)); };
  const Status done = co_await run_at(route.facts.cost, std::move(work));
  if (gone_) co_return Next::gone;
  if (!done.ok()) co_return co_await send(error_response(done, route.protocol));
  if (!parsed->value().has_value())
    co_return co_await send(error_response(parsed->value().error(), route.protocol));
  call.reset();
  release_body();
  ApiGeneration generation = std::move(**parsed).value();
  co_return co_await generate(route, std::move(generation));
}

asio::awaitable<Connection::Next> Connection::generate(const Route& route, ApiGeneration parsed) {
  const Counted generating(server_.num_generating);
  std::string name = parsed.id;
  Generation call(std::move(parsed), server_.engine, waker());
  const std::uint64_t first_id = server_.next_request_id.fetch_add(call.num_requests());
  const LiveCalls::Entry listed(server_.live_calls, std::move(name), first_id, call.num_requests());
  if (Status refused = call.start(first_id, server_.clock.now()); !refused.ok())
    co_return co_await send(error_response(refused, route.protocol));
  call_ = &call;
  const AnswerForm form = call.streaming() ? route.facts.form : AnswerForm::json;
  const std::size_t limit = server_.config.max_unsent_bytes;
  bool head_sent = false;
  Next next = Next::gone;
  while (!gone_) {
    if (shutting_down_) call.fail(unavailable("The server is shutting down."));
    if (!server_.engine.healthy()) call.fail(unavailable("The engine has stopped."));
    std::string piece;
    bool more = call.pump(piece, limit);
    const bool finished = call.finished();
    if (finished && !head_sent && !call.answer().error().ok()) {
      next = co_await send(error_response(call.answer().error(), route.protocol));
      break;
    }
    if (finished && !more) more = call.answer().take(piece, limit);
    const bool last = finished && !more;
    if (last && !head_sent && !call.streaming()) {
      HttpResponse response;
      response.body = std::move(piece);
      next = co_await send(std::move(response));
      break;
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
    }
    if (last) {
      next = framing_.minor_version == 1 && framing_.keep_alive ? Next::keep_alive : Next::close;
      break;
    }
    if (more)
      co_await yield();
    else
      co_await event_.wait();
  }
  call_ = nullptr;
  co_return gone_ ? Next::gone : next;
}

asio::awaitable<Status> Connection::run_at(Cost cost, std::function<void()> work) {
  if (cost == Cost::trifle) {
    work();
    co_return ok_status();
  }
  if (server_.num_pending_calls.fetch_add(1) >= server_.config.max_pending_calls) {
    server_.num_pending_calls.fetch_sub(1);
    co_return resource_exhausted("Too many requests are waiting; please try again.");
  }
  struct Outcome {
    bool done = false, failed = false;
  };
  auto outcome = std::make_shared<Outcome>();
  asio::post(workers_, [work = std::move(work), outcome, self = shared_from_this()]() mutable {
    bool failed = false;
    try {
      work();
    } catch (const std::exception&) {  // out of memory: this request fails, the others go on
      log_error("server", "a request could not be read for lack of memory");
      failed = true;
    }
    work = nullptr;
    self->server_.num_pending_calls.fetch_sub(1);
    asio::post(self->stream_.get_executor(), [outcome, failed, self] {
      *outcome = {.done = true, .failed = failed};
      self->event_.set();
    });
  });
  while (!outcome->done) co_await event_.wait();
  co_return outcome->failed ? internal_error("out of memory") : ok_status();
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
