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

#include "base/log.h"
#include "base/strings.h"
#include "server/endpoints.h"

namespace pagoda {
namespace {

namespace asio = boost::asio;
using ErrorCode = boost::system::error_code;
using std::chrono::milliseconds;

// Errors come back as values: nothing in a connection throws for what a client does.
constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
constexpr std::size_t kReadSize = std::size_t{32} << 10;
constexpr std::size_t kMaxPipelined = std::size_t{64} << 10;
constexpr milliseconds kLinger{2000};
constexpr int kUnsentBytes = 32 << 10;  // in a socket's buffer, beyond what is on its way

std::string address_of(const asio::ip::tcp::socket& socket) {
  ErrorCode error;
  const auto endpoint = socket.remote_endpoint(error);
  return error ? std::string() : endpoint.address().to_string();
}

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

Connection::Connection(asio::ip::tcp::socket socket, ServerContext& server, WakeList<Connection>& wakes,
                       bool over_limit)
    : server_(server),
      id_(server.next_connection.fetch_add(1)),
      peer_(address_of(socket)),
      over_limit_(over_limit),
      wakes_(wakes),
      stream_(std::move(socket)),
      event_(stream_.get_executor()),
      read_timer_(stream_.get_executor()) {
  idle_since_ = server_.clock.now();
  server_.num_connections.fetch_add(1);
  server_.metrics.connection_opened();
}

Connection::~Connection() {
  release_body();
  server_.metrics.connection_closed();
  server_.num_connections.fetch_sub(1);
}

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
    if (self->idle_since() != 0) self->stream_.close();
    self->event_.set();
  });
}

void Connection::close_if_idle() {
  asio::post(stream_.get_executor(), [self = shared_from_this()] {
    if (self->idle_since() != 0) self->stream_.close();
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
        HttpResponse response = error_response({.status = error->status, .message = error->message});
        if (co_await send(std::move(response)) != Next::gone) co_await linger();
      }
      break;
    }
    idle_since_ = 0;
    begun_ = server_.clock.now();
    std::optional<Counted> active(std::in_place, server_.num_active);
    begin_request(request);
    const RouteTable::Match match = server_.routes.find(request.method, request.path);
    // The head stays at the front of buffer_ until the body parser has consumed it.
    const Next next = co_await answer(request, match);
    release_body();
    active.reset();  // not while lingering: a drain need not wait for that
    if (next == Next::gone) status_ = 499;
    server_.metrics.record(request.method, match.path, status_, to_seconds(server_.clock.now() - begun_));
    if (server_.config.access_log)
      log_info("http", concat("\"", request.method, " ", request.path, "\" ", status_));
    idle_since_ = server_.clock.now();
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
  timeout_s_.reset();
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

}  // namespace pagoda
