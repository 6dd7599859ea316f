// Connection: answers to requests.
#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cmath>
#include <ctime>

#include "api/query.h"
#include "base/log.h"
#include "base/strings.h"
#include "server/connection.h"
#include "server/deadline.h"
#include "server/endpoints.h"
#include "server/keys/key_policy.h"

namespace pagoda {
namespace {

namespace asio = boost::asio;

constexpr std::size_t kOneWrite = std::size_t{16} << 10;          // smaller bodies are sent with the head
constexpr std::size_t kAnswerPieceBytes = std::size_t{64} << 10;  // the job's cost of building a whole answer

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
  protocol_ = match.protocol;
  std::optional<HttpResponse> early = answer_from_head(request, match, key_.get(), server_);
  if (!early && match.role != Role::anyone && still_over_limit()) {
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
  if (!early) early = take_request(match);
  if (early && request.has_body()) {
    early->close = true;  // the body is left unread
    co_return co_await send(std::move(*early));
  }
  if (!early && request.expects_continue && request.has_body() && request.minor_version == 1) {
    if (!co_await write("HTTP/1.1 100 Continue\r\n\r\n")) co_return Next::gone;
  }
  auto call = std::make_shared<ApiCall>();
  std::optional<HttpError> error =
      co_await read_body(request, max_body_bytes(match, server_.config), call->body);
  if (gone()) co_return Next::gone;
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
  call->query = request.query;
  call->headers = request.headers;
  call->id = request_id_;
  call->created = std::time(nullptr);
  if (key_ != nullptr) call->owner = key_->entry.name;
  co_return co_await answer_call(*match.route, std::move(call));
}

// A connection accepted without memory reserves it as soon as some is available.
bool Connection::still_over_limit() {
  if (!listener_.over_limit) return false;
  if (memory_.bytes() == 0) memory_ = server_.memory.connection().value_or(MemoryReservation());
  return memory_.bytes() == 0 || server_.num_connections.load() > server_.config.max_connections;
}

asio::awaitable<Connection::Next> Connection::answer_call(const Route& route, std::shared_ptr<ApiCall> call) {
  const auto* generation = std::get_if<GenerationHandler>(&route.handler);
  const auto* wait = std::get_if<WaitHandler>(&route.handler);
  const auto* stream = std::get_if<StreamHandler>(&route.handler);
  const bool at_once =
      generation == nullptr && wait == nullptr && stream == nullptr && route.facts.cost == Cost::inlined;
  if (at_once) co_return co_await answer_whole(route, std::move(call));
  watch();
  Next next = Next::gone;
  if (generation != nullptr)
    next = co_await answer_generation(route, *generation, std::move(call));
  else if (wait != nullptr)
    next = co_await answer_when_ready(route, *wait, std::move(call));
  else if (stream != nullptr)
    next = co_await answer_stream(route, *stream, std::move(call));
  else
    next = co_await answer_whole(route, std::move(call));
  co_await stop_watching();
  co_return gone() ? Next::gone : next;
}

// The functions below share the data of a job with it, since the coroutine's frame may be destroyed first.
asio::awaitable<Connection::Next> Connection::answer_whole(const Route& route,
                                                           std::shared_ptr<ApiCall> call) {
  const std::size_t bytes = call->body.size();
  auto response = std::make_shared<HttpResponse>();
  struct Followed {
    std::shared_ptr<AnswerLog> log;
    std::size_t first = 0;
  };
  auto followed = std::make_shared<Followed>();
  ServerContext* server = &server_;
  const Route* row = &route;
  std::function<void()> work = [response, followed, call, server, row] {
    const Result<MemoryReservation> text = server->memory.text(call->body);
    if (!text) {
      *response = error_response(text.error(), row->protocol);
      return;
    }
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
    if (!answer->warning.empty()) response->headers.emplace_back("warning", std::move(answer->warning));
    *followed = {.log = std::move(answer->follow), .first = answer->first_event};
  };
  if (Status done = co_await run_job(route.facts.cost, bytes, std::move(work)); !done.ok())
    *response = error_response(done, route.protocol);
  if (gone()) co_return Next::gone;
  if (followed->log != nullptr) co_return co_await follow(followed->log, followed->first);
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
  while (!gone() && !ready->ready()) {
    if (!server_.engine.healthy())
      co_return co_await send(error_response(unavailable("The engine has stopped."), route.protocol));
    if (limit.count() > 0 && late.expiry() <= std::chrono::steady_clock::now())
      co_return co_await send(
          error_response(unavailable("The engine is busy with a long step; try again."), route.protocol));
    co_await event_.wait();
  }
  if (gone()) co_return Next::gone;
  auto response = std::make_shared<HttpResponse>();
  std::function<void()> build = [response, ready, server] { *response = ready->answer(*server); };
  if (Status done = co_await run_job(Cost::text, kAnswerPieceBytes, std::move(build)); !done.ok())
    co_return co_await send(error_response(done, route.protocol));
  if (gone()) co_return Next::gone;
  co_return co_await send(std::move(*response));
}

std::string_view Connection::tenant() const {
  return key_ == nullptr ? std::string_view(peer_) : tenant_of(*key_, peer_);
}

asio::awaitable<Status> Connection::run_job(Cost cost, std::size_t bytes, std::function<void()> work) {
  if (cost == Cost::inlined) {
    work();
    co_return ok_status();
  }
  struct Outcome {
    bool done = false;
    JobPool::End end = JobPool::End::done;
  };
  auto outcome = std::make_shared<Outcome>();  // may outlive the connection at exit
  JobPool::Job job{.owner = std::string(tenant()), .cost = bytes, .work = std::move(work), .done = nullptr};
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
    if (gone() && !outcome->done && server_.jobs.cancel(*id))
      co_return unavailable("The client has disconnected.");
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

// A refusal by the engine, with the time after which the client may retry.
HttpResponse Connection::refusal(const Status& status, const Protocol* protocol,
                                 const QueueKey& whose) const {
  const bool later = status.code() == StatusCode::resource_exhausted;
  return refusal_after(status, protocol,
                       later ? server_.engine.expected_wait(whose.tenant, whose.priority) : 0);
}

HttpResponse Connection::refusal_after(const Status& status, const Protocol* protocol, double wait_s) {
  HttpResponse response = error_response(status, protocol);
  if (status.code() != StatusCode::resource_exhausted) return response;
  const double seconds = std::clamp(std::ceil(wait_s), 1.0, 3600.0);
  for (auto& [name, value] : response.headers)
    if (name == "retry-after") value = concat(static_cast<std::int64_t>(seconds));
  return response;
}

void Connection::add_common_headers(HttpResponse& response) const {
  response.headers.emplace_back("x-request-id", request_id_);
  const std::string_view own = protocol_ == nullptr ? std::string_view() : protocol_->request_id_header;
  if (!own.empty()) response.headers.emplace_back(own, request_id_);
  if (metered_)
    for (auto& header : key_->account->limit.headers(server_.clock.now()))
      response.headers.push_back(std::move(header));
  if (!warning_.empty()) response.headers.emplace_back("warning", warning_);
  if (origin_.empty()) return;
  response.headers.emplace_back("access-control-allow-origin", origin_);
  response.headers.emplace_back(
      "access-control-expose-headers",
      own.empty() ? "x-request-id, warning" : concat("x-request-id, warning, ", own));
  response.headers.emplace_back("vary", "origin");
}

// Counts and limits requests by key, except those of inlined routes.
std::optional<HttpResponse> Connection::take_request(const RouteTable::Match& match) {
  if (match.route->facts.cost == Cost::inlined || key_ == nullptr) return std::nullopt;
  metered_ = true;
  const auto refused = key_->account->limit.take_request(server_.clock.now());
  return refused ? std::optional(rate_limit_response(*refused, match.protocol)) : std::nullopt;
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

// Lets other connections run.
asio::awaitable<void> Connection::yield() {
  co_await asio::post(stream_.get_executor(), asio::use_awaitable);
}

}  // namespace pagoda
