#include "server/connection.h"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <ctime>
#include <exception>
#include <limits>

#include "base/log.h"
#include "base/strings.h"
#include "server/debug_endpoints.h"
#include "server/endpoints.h"
#include "server/prefix_endpoints.h"

namespace pagoda {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using ErrorCode = boost::system::error_code;
using std::chrono::milliseconds;

// Errors come back as values: nothing in a connection throws for what a client does.
constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
constexpr std::size_t kIdleReadSize = 1024;  // what an idle connection keeps ready
constexpr std::size_t kReadSize = std::size_t{32} << 10;
constexpr std::size_t kMaxPipelined = std::size_t{64} << 10;
// A chunked body may carry this much framing beyond its own size again: one-byte chunks are an attack.
constexpr std::size_t kMaxChunkOverhead = std::size_t{64} << 10;
constexpr milliseconds kLinger{2000};
constexpr int kUnsentBytes = 32 << 10;  // in a socket's buffer, beyond what is on its way

// Counts one while it lives, whatever way its scope is left.
class Counted {
 public:
  explicit Counted(std::atomic<std::int64_t>& count) : count_(count) { count_.fetch_add(1); }
  ~Counted() { count_.fetch_sub(1); }
  Counted(const Counted&) = delete;

 private:
  std::atomic<std::int64_t>& count_;
};

std::chrono::steady_clock::time_point after(milliseconds duration) {
  return std::chrono::steady_clock::now() + duration;
}

}  // namespace

asio::awaitable<void> StrandEvent::wait() {
  if (!set_) co_await timer_.async_wait(kAwait);
  set_ = false;
}

void StrandEvent::set() {
  set_ = true;
  timer_.cancel();
}

Connection::Connection(asio::ip::tcp::socket socket, ServerContext& server, asio::thread_pool& workers,
                       WakeList<Connection>& wakes)
    : server_(server),
      workers_(workers),
      wakes_(wakes),
      stream_(std::move(socket)),
      event_(stream_.get_executor()),
      read_timer_(stream_.get_executor()) {
  server_.num_connections.fetch_add(1);
  server_.metrics.connection_opened();
}

Connection::~Connection() {
  release_body();
  server_.metrics.connection_closed();
  server_.num_connections.fetch_sub(1);
}

// Counts a body's bytes against what all connections may hold together. False: there is no room.
bool Connection::hold_body(std::size_t bytes) {
  held_body_ += bytes;
  const std::size_t limit = std::max(server_.config.max_bodies_bytes, server_.config.max_body_bytes);
  return server_.bodies_bytes.fetch_add(bytes) + bytes <= limit;
}

void Connection::release_body() { server_.bodies_bytes.fetch_sub(std::exchange(held_body_, 0)); }

void Connection::serve() {
  auto body = [self = shared_from_this()]() -> asio::awaitable<void> { co_await self->run(); };
  asio::co_spawn(stream_.get_executor(), std::move(body), asio::detached);
}

void Connection::wake() {
  asio::dispatch(stream_.get_executor(), [self = shared_from_this()] { self->event_.set(); });
}

std::function<void()> Connection::waker() {
  return [weak = weak_from_this(), &wakes = wakes_] { wakes.add(weak); };
}

void Connection::shut_down() {
  asio::post(stream_.get_executor(), [self = shared_from_this()] {
    self->shutting_down_ = true;
    if (self->idle_) self->stream_.close();
    self->event_.set();
  });
}

asio::awaitable<std::size_t> Connection::read_some(SteadyTime deadline, std::size_t size) {
  const std::size_t old_size = buffer_.size();
  buffer_.resize(old_size + size);
  const auto space = asio::buffer(buffer_.data() + old_size, size);
  // The stream's own timer would close the socket, and a slow client could not be told 408.
  stream_.expires_never();
  timed_out_ = false;
  const std::uint64_t ticket = ++read_ticket_;
  read_timer_.expires_at(deadline);
  read_timer_.async_wait([weak = weak_from_this(), ticket](ErrorCode error) {
    const std::shared_ptr<Connection> self = weak.lock();
    if (error || self == nullptr || self->read_ticket_ != ticket) return;
    self->timed_out_ = true;
    self->stream_.cancel();
  });
  const auto [error, count] = co_await stream_.async_read_some(space, kAwait);
  ++read_ticket_;
  read_timer_.cancel();
  buffer_.resize(old_size + (error ? 0 : count));
  if (!error) timed_out_ = false;
  co_return error ? 0 : count;
}

asio::awaitable<bool> Connection::write(std::string_view data) {
  // A token's event nearly always fits: then there is nothing to wait for, and no timer.
  ErrorCode later;  // the socket is full, or an error that the write below meets again
  data.remove_prefix(stream_.socket().write_some(asio::buffer(data.data(), data.size()), later));
  // The limit is for a client that takes nothing: what it takes gives it as long again.
  while (!data.empty()) {
    stream_.expires_after(server_.config.write_timeout);
    const auto bytes = asio::buffer(data.data(), data.size());
    const auto [error, count] = co_await stream_.async_write_some(bytes, kAwait);
    if (error) co_return false;
    data.remove_prefix(count);
  }
  co_return !gone_;
}

// The reading end of a connection that was refused mid-request: closing it with bytes unread would reset
// it, and the client might never see the answer.
asio::awaitable<void> Connection::linger() {
  ErrorCode ignored;
  stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  const SteadyTime deadline = after(kLinger);
  for (int i = 0; i < 64; ++i) {
    buffer_.clear();
    if (co_await read_some(deadline, kReadSize) == 0) break;
  }
}

asio::awaitable<void> Connection::run() {
  ErrorCode ignored;
  stream_.socket().set_option(asio::ip::tcp::no_delay(true), ignored);
  stream_.socket().non_blocking(true, ignored);
  // Else a socket that is full becomes writable only once a third of its buffer, which may be megabytes, has
  // gone, and a slow reader would seem to take nothing.
  (void)setsockopt(stream_.socket().native_handle(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kUnsentBytes,
                   sizeof kUnsentBytes);
  while (!shutting_down_) {
    HttpRequest request;
    std::optional<HttpError> error;
    framing_ = {};
    if (!co_await read_head(request, error)) {
      if (error) {
        request_id_ = request_id_for(request);
        status_ = error->status;
        framing_.keep_alive = false;
        server_.metrics.record("other", "none", error->status, 0);
        HttpResponse response = error_response(error->status, error->message);
        if (co_await send(std::move(response)) != Next::gone) co_await linger();
      }
      break;
    }
    idle_ = false;
    const TimeNs begin = server_.clock.now();
    std::optional<Counted> active(std::in_place, server_.num_active);
    begin_request(request);
    std::string_view rest;
    const Route& route = find_route(request.path, rest);
    // The head stays at the front of buffer_ until the body parser has consumed it.
    const Next next = co_await answer(request, rest);
    release_body();
    active.reset();  // not while lingering: a drain need not wait for that
    if (next == Next::gone) status_ = 499;
    server_.metrics.record(request.method, route.path, status_, to_seconds(server_.clock.now() - begin));
    if (server_.config.access_log)
      log_info("http", concat("\"", request.method, " ", request.path, "\" ", status_));
    idle_ = true;
    if (next == Next::gone) break;
    if (next == Next::close) {
      co_await linger();
      break;
    }
  }
  stream_.close();
}

void Connection::begin_request(const HttpRequest& request) {
  request_id_ = request_id_for(request);
  origin_ = allowed_origin(request.header("origin"), server_.config.allowed_origins);
  framing_.minor_version = request.minor_version;
  framing_.keep_alive = request.keep_alive && !server_.draining.load();
  framing_.head_only = request.method == "HEAD";
  status_ = 0;
}

// False: no request; `error` says what to tell the client, if anything.
asio::awaitable<bool> Connection::read_head(HttpRequest& request, std::optional<HttpError>& error) {
  if (buffer_.empty()) {
    buffer_.shrink_to_fit();
    const SteadyTime idle_deadline = after(server_.config.keep_alive_timeout);
    if (co_await read_some(idle_deadline, kIdleReadSize) == 0) co_return false;
  }
  const SteadyTime deadline = after(server_.config.head_timeout);
  std::size_t scanned = 0;
  for (;;) {
    if (buffer_.starts_with("\r\n")) {  // a stray blank line before a request is allowed
      buffer_.erase(0, 2);
      scanned = 0;
    }
    const HeadScan scan = scan_head(buffer_, scanned, server_.config.head_limits);
    error = scan.error;
    if (error) co_return false;
    if (scan.end > 0) {
      error = parse_head(std::string_view(buffer_).substr(0, scan.end), server_.config.head_limits, request);
      if (error) co_return false;
      request.head_bytes = scan.end;
      co_return true;
    }
    if (co_await read_some(deadline, kReadSize) == 0) {
      if (timed_out_) error = HttpError{408, "The request head did not arrive in time."};
      co_return false;
    }
  }
}

// Runs Boost's parser over head and body. `body` is complete when no error is returned.
asio::awaitable<std::optional<HttpError>> Connection::read_body(const HttpRequest& request,
                                                                std::string& body) {
  http::request_parser<http::string_body> parser;
  constexpr std::size_t kMaxHeaderLimit = std::numeric_limits<std::uint32_t>::max();
  parser.header_limit(
      static_cast<std::uint32_t>(std::min(server_.config.head_limits.max_head_bytes + 4, kMaxHeaderLimit)));
  parser.body_limit(server_.config.max_body_bytes);
  ErrorCode error;
  const auto refused = [&](const ErrorCode& code) {
    if (code == http::error::body_limit)
      return HttpError{
          413, concat("The request body may have at most ", server_.config.max_body_bytes, " bytes.")};
    return HttpError{400, "The request is malformed."};
  };
  std::size_t used = parser.put(asio::buffer(buffer_.data(), request.head_bytes), error);
  if (error || used != request.head_bytes || !parser.is_header_done()) {
    if (!error || error == http::error::need_more) error = make_error_code(http::error::bad_value);
    co_return refused(error);
  }
  buffer_.erase(0, used);
  parser.eager(true);
  std::size_t framed = 0;  // body bytes with their chunk framing
  while (!parser.is_done()) {
    error = {};
    used = buffer_.empty() ? 0 : parser.put(asio::buffer(buffer_), error);
    buffer_.erase(0, used);
    framed += used;
    if (error && error != http::error::need_more) co_return refused(error);
    if (framed > 2 * parser.get().body().size() + kMaxChunkOverhead)
      co_return HttpError{413, "The chunked request body is mostly framing."};
    if (parser.is_done()) break;
    if (used > 0 && !buffer_.empty() && !error) continue;
    if (buffer_.size() > kMaxChunkOverhead)
      co_return HttpError{400, "The chunked request body is malformed."};
    const SteadyTime deadline = after(server_.config.body_timeout);
    const std::size_t received = co_await read_some(deadline, kReadSize);
    if (received == 0) {
      if (timed_out_) co_return HttpError{408, "The request body did not arrive in time."};
      gone_ = true;
      co_return std::nullopt;
    }
    if (!hold_body(received))
      co_return HttpError{503, "Too many request bodies are being read; please try again."};
  }
  body = std::move(parser.get().body());
  co_return std::nullopt;
}

asio::awaitable<Connection::Next> Connection::answer(const HttpRequest& request, std::string_view rest) {
  std::string_view unused;
  const Route& route = find_route(request.path, unused);
  std::optional<HttpResponse> early = answer_from_head(request, route, server_);
  if (early && request.has_body()) {
    early->close = true;  // the body stays unread
    co_return co_await send(std::move(*early));
  }
  if (!early && request.expects_continue && request.has_body()) {
    if (!co_await write("HTTP/1.1 100 Continue\r\n\r\n")) co_return Next::gone;
  }
  std::string body;
  std::optional<HttpError> error = co_await read_body(request, body);
  if (gone_) co_return Next::gone;
  if (error) {
    HttpResponse response = error_response(error->status, error->message);
    response.close = true;
    co_return co_await send(std::move(response));
  }
  if (early) co_return co_await send(std::move(*early));

  switch (route.endpoint) {
    case Endpoint::completions:
      co_return co_await answer_generation(CallKind::completion, std::move(body));
    case Endpoint::chat_completions:
      co_return co_await answer_generation(CallKind::chat, std::move(body));
    case Endpoint::tokenize:
    case Endpoint::detokenize:
      co_return co_await answer_text_call(route, std::move(body));
    case Endpoint::debug_kv:
    case Endpoint::debug_request:
      co_return co_await answer_debug_call(route, std::string(rest));
    case Endpoint::admin_prefixes:
    case Endpoint::admin_prefix:
      co_return co_await answer_prefix_call(route, request, std::string(rest), std::move(body));
    default: {
      HttpResponse response = answer_small(route, rest, server_);
      co_return co_await send(std::move(response));
    }
  }
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
  const std::string text = write_response(response, framing_);
  if (!co_await write(text)) co_return Next::gone;
  co_return framing_.keep_alive && !response.close ? Next::keep_alive : Next::close;
}

// Calls `work` on a worker thread and waits for it. False when the workers' queue is full.
asio::awaitable<bool> Connection::on_worker(std::function<void()> work) {
  if (server_.num_pending_calls.fetch_add(1) >= server_.config.max_pending_calls) {
    server_.num_pending_calls.fetch_sub(1);
    co_return false;
  }
  auto done = std::make_shared<bool>(false);  // shared: the connection may be torn down at exit first
  asio::post(workers_, [work = std::move(work), done, self = shared_from_this()] {
    try {
      work();
    } catch (const std::exception&) {  // out of memory: this request fails, the others go on
      log_error("server", "a request could not be read for lack of memory");
    }
    self->server_.num_pending_calls.fetch_sub(1);
    asio::post(self->stream_.get_executor(), [done, self] {
      *done = true;
      self->event_.set();
    });
  });
  while (!*done) co_await event_.wait();
  co_return true;
}

asio::awaitable<Connection::Next> Connection::answer_text_call(const Route& route, std::string body) {
  // Shared with the worker, which must never look into a coroutine frame that may be gone.
  auto job = std::make_shared<TextJob>();
  job->body = std::move(body);
  const ServerContext* server = &server_;
  const Route* where = &route;
  std::function<void()> work = [job, server, where] {
    job->response = answer_text(*where, job->body, *server);
  };
  if (!co_await on_worker(std::move(work))) {
    HttpResponse busy = answer_error(resource_exhausted("Too many requests are waiting; please try again."));
    co_return co_await send(std::move(busy));
  }
  if (!job->response) co_return co_await send(answer_error(internal_error("out of memory")));
  co_return co_await send(*std::move(job->response));
}

asio::awaitable<Connection::Next> Connection::answer_debug_call(const Route& route, std::string rest) {
  auto job = std::make_shared<TextJob>();
  job->body = std::move(rest);
  const ServerContext* server = &server_;
  const Route* where = &route;
  std::function<void()> work = [job, server, where] {
    job->response = answer_debug(*where, job->body, *server);
  };
  if (!co_await on_worker(std::move(work))) {
    HttpResponse busy = answer_error(resource_exhausted("Too many requests are waiting; please try again."));
    co_return co_await send(std::move(busy));
  }
  if (!job->response) co_return co_await send(answer_error(internal_error("out of memory")));
  co_return co_await send(*std::move(job->response));
}

asio::awaitable<Connection::Next> Connection::answer_prefix_call(const Route& route,
                                                                 const HttpRequest& request, std::string rest,
                                                                 std::string body) {
  if (request.method == "POST") co_return co_await add_prefix(std::move(body));
  HttpResponse response =
      route.endpoint == Endpoint::admin_prefix ? drop_prefix(rest, server_) : list_prefixes(server_);
  co_return co_await send(std::move(response));
}

// Answers once the engine has computed the prefix. A client that hangs up meanwhile changes nothing.
asio::awaitable<Connection::Next> Connection::add_prefix(std::string body) {
  auto job = std::make_shared<PrefixJob>();
  job->body = std::move(body);
  const ApiContext* api = &server_.api;
  std::function<void()> work = [job, api] { job->prefix.emplace(parse_prefix(job->body, *api)); };
  if (!co_await on_worker(std::move(work))) {
    Status busy = resource_exhausted("Too many requests are waiting; please try again.");
    co_return co_await send(answer_error(busy));
  }
  if (!job->prefix) co_return co_await send(answer_error(internal_error("out of memory")));
  if (!job->prefix->has_value()) co_return co_await send(answer_error(job->prefix->error()));
  const PrefixSpec prefix = std::move(*job->prefix).value();
  const auto pinned = std::make_shared<PrefixSink>(waker());
  Status status = server_.engine.add_prefix(prefix.name, prefix.token_ids, pinned);
  while (status.ok() && !pinned->done()) co_await event_.wait();
  if (status.ok()) status = pinned->status();
  co_return co_await send(prefix_added(prefix, std::move(status), server_));
}

void Connection::watch() {
  if (watching_ || gone_) return;
  watching_ = true;
  stream_.async_read_some(
      asio::buffer(watch_buffer_), [self = shared_from_this()](ErrorCode error, std::size_t count) {
        self->watching_ = false;
        if (!error) {
          self->buffer_.append(self->watch_buffer_, count);  // the next request, pipelined
          if (self->stop_watch_ || self->buffer_.size() > kMaxPipelined) return self->event_.set();
          return self->watch();
        }
        if (error != asio::error::operation_aborted) {
          self->gone_ = true;
          if (self->call_ != nullptr) self->call_->cancel();
        }
        self->event_.set();
      });
}

asio::awaitable<void> Connection::stop_watching() {
  stop_watch_ = true;
  if (watching_) stream_.cancel();
  while (watching_) co_await event_.wait();
  stop_watch_ = false;
}

asio::awaitable<Connection::Next> Connection::answer_generation(CallKind kind, std::string body) {
  stream_.expires_never();
  watch();
  auto job = std::make_shared<CallJob>();
  job->body = std::move(body);
  job->origin.id = request_id_;
  job->origin.created = std::time(nullptr);
  const ApiContext* api = &server_.api;
  std::function<void()> work = [job, kind, api] {
    job->call.emplace(parse_call(kind, job->body, job->origin, *api));
  };
  Next next = Next::gone;
  if (!co_await on_worker(std::move(work))) {
    Status busy = resource_exhausted("Too many requests are waiting; please try again.");
    next = co_await send(answer_error(busy));
  } else if (!job->call) {
    next = co_await send(answer_error(internal_error("out of memory")));
  } else if (!gone_ && !job->call->has_value()) {
    next = co_await send(answer_error(job->call->error()));
  } else if (!gone_) {
    job->body = {};
    release_body();
    ParsedCall call = std::move(*job->call).value();
    next = co_await generate(std::move(call));
  }
  co_await stop_watching();
  co_return gone_ ? Next::gone : next;
}

asio::awaitable<Connection::Next> Connection::generate(ParsedCall parsed) {
  const Counted generating(server_.num_generating);
  std::string name = parsed.response.id;
  Generation call(std::move(parsed), server_.engine, server_.api, waker());
  const std::uint64_t first_id = server_.next_request_id.fetch_add(call.num_requests());
  const LiveCalls::Entry listed(server_.live_calls, std::move(name), first_id, call.num_requests());
  if (Status refused = call.start(first_id, server_.clock.now()); !refused.ok())
    co_return co_await send(answer_error(refused));
  call_ = &call;
  bool head_sent = false;
  Next next = Next::gone;
  while (!gone_) {
    if (shutting_down_) call.fail(unavailable("The server is shutting down."));
    if (!server_.engine.healthy()) call.fail(unavailable("The engine has stopped."));
    std::string events = call.pump(server_.config.max_unsent_bytes);
    const bool finished = call.finished();
    if (finished && call.streaming()) events.append(call.builder().take_events());
    if (finished && !head_sent && (!call.streaming() || !call.builder().error().ok())) {
      next = co_await send(final_response(call.builder()));
      break;
    }
    if (!events.empty()) {
      std::string out;
      if (!std::exchange(head_sent, true)) out = stream_head();
      frame(out, events);
      if (finished && framing_.minor_version == 1) out.append(kLastChunk);
      if (!co_await write(out)) {
        gone_ = true;
        break;
      }
    }
    if (finished) {
      next = framing_.minor_version == 1 && framing_.keep_alive ? Next::keep_alive : Next::close;
      break;
    }
    if (!call.has_more()) co_await event_.wait();
  }
  call_ = nullptr;
  co_return gone_ ? Next::gone : next;
}

HttpResponse Connection::final_response(ResponseBuilder& builder) const {
  if (!builder.error().ok()) return answer_error(builder.error());
  HttpResponse response;
  response.body = builder.body();
  return response;
}

std::string Connection::stream_head() {
  HttpResponse response;
  add_common_headers(response);
  status_ = 200;
  if (framing_.minor_version == 0) framing_.keep_alive = false;
  return write_stream_head(response, framing_);
}

void Connection::frame(std::string& out, std::string_view events) const {
  if (framing_.minor_version == 1)
    append_chunk(out, events);
  else
    out.append(events);
}

}  // namespace pagoda
