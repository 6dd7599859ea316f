#include "server/connection.h"

#include <algorithm>
#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/check.h"
#include "base/log.h"
#include "base/strings.h"
#include "server/endpoints.h"

namespace pagoda {
namespace {

namespace asio = boost::asio;
using ErrorCode = boost::system::error_code;
using std::chrono::milliseconds;

// Errors are returned as values: no client behaviour causes an exception in a connection.
constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
constexpr std::size_t kReadSize = std::size_t{32} << 10;
constexpr std::size_t kMaxPipelined = std::size_t{64} << 10;
constexpr milliseconds kLinger{2000};
constexpr std::size_t kMaxTraceparent = 512;
constexpr int kHungUp = 499;  // status of a request whose client has disconnected
constexpr milliseconds kAskAfter{60}, kLookOften{500};

}  // namespace

asio::awaitable<void> StrandEvent::wait() {
  if (!set_) co_await timer_.async_wait(kAwait);
  set_ = false;
}

void StrandEvent::set() {
  set_ = true;
  timer_.cancel();
}

Connection::Connection(Transport::Socket socket, std::shared_ptr<const TlsContext> tls, ServerContext& server,
                       WakeList<Connection>& wakes, Origin origin, MemoryReservation memory)
    : server_(server),
      listener_(origin),
      memory_(std::move(memory)),
      wakes_(wakes),
      stream_(std::move(socket), std::move(tls)),
      peer_(stream_.peer()),
      state_(stream_.is_tls() ? ConnectionState::handshaking : ConnectionState::idle),
      event_(stream_.get_executor()),
      read_timer_(stream_.get_executor()),
      write_timer_(stream_.get_executor()) {
  idle_since_ = server_.clock.now();
  server_.num_connections.fetch_add(1);
  if (listener_.over_limit) server_.num_beyond.fetch_add(1);
  server_.metrics.connection_opened();
}

Connection::~Connection() {
  release_body();
  server_.metrics.connection_closed();
  server_.num_connections.fetch_sub(1);
  if (listener_.over_limit) server_.num_beyond.fetch_sub(1);
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
  asio::post(stream_.get_executor(), [self = shared_from_this()] { self->on(ConnectionEvent::shut_down); });
}

void Connection::close_if_idle() {
  asio::post(stream_.get_executor(), [self = shared_from_this()] { self->on(ConnectionEvent::no_room); });
}

// Cancels the pending wait at `deadline`, unless read_ticket_ has changed by then.
void Connection::cancel_at(SteadyTime deadline) {
  const std::uint64_t ticket = ++read_ticket_;
  read_timer_.expires_at(deadline);
  read_timer_.async_wait([weak = weak_from_this(), ticket](ErrorCode error) {
    const std::shared_ptr<Connection> self = weak.lock();
    if (error || self == nullptr || self->read_ticket_ != ticket) return;
    self->timed_out_ = true;
    self->stream_.cancel();
  });
}

// A client that does not finish the handshake in time is disconnected without an answer.
asio::awaitable<void> Connection::shake_hands() {
  timed_out_ = false;
  cancel_at(after(server_.config.head_timeout));
  const ErrorCode error = co_await stream_.handshake();
  ++read_ticket_;
  read_timer_.cancel();
  on(error || timed_out_ ? ConnectionEvent::peer_left : ConnectionEvent::handshake_done);
}

asio::awaitable<std::size_t> Connection::read_some(SteadyTime deadline, std::size_t size) {
  // The end has been read already; Asio would wait for another socket event, which never comes.
  if (half_closed_) co_return 0;
  const std::size_t old_size = buffer_.size();
  buffer_.resize(old_size + size);
  const auto space = asio::buffer(buffer_.data() + old_size, size);
  timed_out_ = false;
  cancel_at(deadline);
  const auto [error, count] = co_await stream_.read_some(space);
  ++read_ticket_;
  read_timer_.cancel();
  buffer_.resize(old_size + (error ? 0 : count));
  if (!error) timed_out_ = false;
  co_return error ? 0 : count;
}

asio::awaitable<bool> Connection::write(std::string_view data) {
  // A token's event nearly always fits, which needs neither a wait nor a timer. The timeout is for clients
  // that read nothing: each successful write restarts it.
  for (;;) {
    ErrorCode error;
    data.remove_prefix(stream_.write_now(data, error));
    if (data.empty()) co_return !gone();
    if (error && error != asio::error::would_block && error != asio::error::try_again) co_return false;
    const std::uint64_t ticket = ++write_ticket_;
    write_timer_.expires_after(server_.config.write_timeout);
    write_timer_.async_wait([weak = weak_from_this(), ticket](ErrorCode late) {
      const std::shared_ptr<Connection> self = weak.lock();
      if (!late && self != nullptr && self->write_ticket_ == ticket) self->stream_.close();
    });
    const ErrorCode failed = co_await stream_.wait_to_write();
    ++write_ticket_;
    write_timer_.cancel();
    if (failed) co_return false;
  }
}

// Reads the rest of the input of a connection that was refused mid-request. Closing it with unread bytes
// would reset it, and the client might never see the answer.
asio::awaitable<void> Connection::linger() {
  stream_.finish_sending();
  const SteadyTime deadline = after(kLinger);
  for (int i = 0; i < 64; ++i) {
    buffer_.clear();
    if (co_await read_some(deadline, kReadSize) == 0) break;
  }
  on(ConnectionEvent::lingered);
}

asio::awaitable<void> Connection::run() {
  HttpRequest request;
  std::optional<HttpError> error;
  while (state_ != ConnectionState::closed) {
    switch (state_) {
      case ConnectionState::handshaking:
        co_await shake_hands();
        break;
      case ConnectionState::idle:
        request = HttpRequest();  // frees the previous request's memory
        co_await wait_for_request();
        break;
      case ConnectionState::reading:
        co_await read_head(request, error);
        break;
      case ConnectionState::refusing:
        co_await refuse(request, *error);
        break;
      case ConnectionState::answering:
        co_await serve_request(request);
        break;
      case ConnectionState::lingering:
        co_await linger();
        break;
      case ConnectionState::draining:
      case ConnectionState::abandoned:
      case ConnectionState::closed:
        CHECK(false);  // serve_request() leaves the first two states
    }
  }
}

void Connection::on(ConnectionEvent event) {
  const std::optional<ConnectionState> next = next_state(state_, event);
  CHECK(next.has_value());
  if (*next == state_) return;
  const bool was_busy = is_busy(state_);
  state_ = *next;
  if (is_busy(state_) != was_busy) idle_since_ = was_busy ? server_.clock.now() : 0;
  if (state_ == ConnectionState::closed) stream_.close();
  if (state_ == ConnectionState::abandoned && call_ != nullptr) call_->cancel();
  // Wakes the answer, which checks the state before anything else it waits for.
  if (state_ == ConnectionState::abandoned || state_ == ConnectionState::draining) event_.set();
}

// Answers a malformed head. Such a request counts for no key.
asio::awaitable<void> Connection::refuse(const HttpRequest& request, const HttpError& error) {
  request_id_ = request_id_for(request);
  status_ = error.status;
  framing_.keep_alive = false;
  server_.metrics.record("other", "none", error.status, 0);
  HttpResponse response = error_response({.status = error.status, .message = error.message});
  const Next next = co_await send(std::move(response));
  on(next == Next::gone ? ConnectionEvent::peer_left : ConnectionEvent::answered_last);
}

asio::awaitable<void> Connection::serve_request(const HttpRequest& request) {
  begun_ = server_.clock.now();
  std::optional<Counted> active(std::in_place, server_.num_active);
  begin_request(request);
  const RouteTable::Match match =
      server_.routes.find(request.method, below_root(request.path, server_.config.root_path));
  // The head stays at the front of buffer_ until the body parser has consumed it.
  const Next next = co_await answer(request, match);
  release_body();
  active.reset();  // a drain need not wait for lingering
  if (next == Next::gone) {
    status_ = kHungUp;
    on(ConnectionEvent::peer_left);
  }
  end_request();
  server_.metrics.record(request.method, match.path, status_, to_seconds(server_.clock.now() - begun_));
  if (server_.config.access_log)
    log_info("http", concat("\"", request.method, " ", request.path, "\" ", status_));
  on(next == Next::keep_alive ? ConnectionEvent::answered : ConnectionEvent::answered_last);
}

void Connection::begin_request(const HttpRequest& request) {
  request_id_ = request_id_for(request);
  if (server_.config.spans != nullptr)
    traceparent_ = request.header("traceparent").substr(0, kMaxTraceparent);
  origin_ = allowed_origin(request.header("origin"), server_.config.allowed_origins);
  const std::string_view x_key = request.header("x-api-key");
  const std::string_view key =
      key_of(request.header("authorization"), x_key.empty() ? request.header("api-key") : x_key);  // Azure's
  key_ = listener_.of_operator ? server_.keys.operator_key() : server_.keys.find(key);
  metered_ = false;
  protocol_ = nullptr;
  warning_.clear();
  framing_.minor_version = request.minor_version;
  framing_.keep_alive = request.keep_alive && !server_.draining.load();
  framing_.head_only = request.method == "HEAD";
  status_ = 0;
  timeout_s_.reset();
}

void Connection::end_request() {
  if (std::exchange(metered_, false)) key_->account->usage.add_request(status_ >= 400 && status_ != kHungUp);
}

void Connection::watch() {
  if (watching_ || gone()) return;
  if (half_closed_) {
    stop_watch_ = false;
    asio::co_spawn(stream_.get_executor(), look_after_half_closed(), asio::detached);
    return;
  }
  watching_ = true;
  stream_.async_read(
      asio::buffer(watch_buffer_), [self = shared_from_this()](ErrorCode error, std::size_t count) {
        self->watching_ = false;
        if (!error) {
          self->buffer_.append(self->watch_buffer_, count);  // the next, pipelined request
          if (self->stop_watch_ || self->buffer_.size() > kMaxPipelined) return self->event_.set();
          return self->watch();
        }
        // With HTTP/1.0 or TLS a half-close cannot be probed, so it counts as a disconnect.
        const bool may_read =
            error == asio::error::eof && !self->stream_.is_tls() && self->framing_.minor_version == 1;
        if (may_read) {
          self->half_closed_ = true;
          self->watch();
        } else if (error != asio::error::operation_aborted) {
          self->on(ConnectionEvent::peer_left);
        }
        self->event_.set();
      });
}

// Finds out whether a client that has closed its sending side still waits for its answer or has left. This
// only shows once something is sent. A stream sends tokens. Before an answer's head a second "100 Continue"
// is allowed: a waiting client ignores it, and one that has left answers with a reset.
asio::awaitable<void> Connection::look_after_half_closed() {
  const std::shared_ptr<Connection> self = shared_from_this();
  asio::steady_timer timer(stream_.get_executor());
  const SteadyTime begin = std::chrono::steady_clock::now();
  bool asked = false;
  while (is_busy(state_) && !gone() && !stop_watch_) {
    const auto passed = std::chrono::steady_clock::now() - begin;
    if (stream_.peer_has_left()) co_return on(ConnectionEvent::peer_left);
    if (!asked && passed >= kAskAfter) {
      ErrorCode ignored;
      constexpr std::string_view kAsk = "HTTP/1.1 100 Continue\r\n\r\n";
      const std::size_t sent = status_ == 0 ? stream_.write_now(kAsk, ignored) : 0;
      if (sent != 0 && sent != kAsk.size()) co_return on(ConnectionEvent::peer_left);
      asked = true;
    }
    timer.expires_after(passed < kLookOften ? milliseconds(5) : milliseconds(100));
    co_await timer.async_wait(kAwait);
  }
}

asio::awaitable<void> Connection::stop_watching() {
  stop_watch_ = true;
  if (watching_) stream_.cancel();
  while (watching_) co_await event_.wait();
  stop_watch_ = half_closed_;
}

}  // namespace pagoda
