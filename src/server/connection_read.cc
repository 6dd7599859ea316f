// Connection: reading a request.
#include <algorithm>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <limits>

#include "base/strings.h"
#include "server/connection.h"

namespace pagoda {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using ErrorCode = boost::system::error_code;

constexpr std::size_t kIdleReadSize = 1024;  // buffer of an idle connection
constexpr std::size_t kBodyReadSize = std::size_t{32} << 10;
// A chunked body may have as much framing as its size, plus this much. Otherwise one-byte chunks could be
// used for an attack.
constexpr std::size_t kMaxChunkOverhead = std::size_t{64} << 10;

HttpError no_room() { return HttpError{503, "Too many request bodies are being read; please try again."}; }

}  // namespace

// Counts a body's bytes against the limits of all connections and of this peer. Returns false if they do not
// fit.
bool Connection::hold_body(std::size_t count) {
  const auto bytes = static_cast<std::int64_t>(count);
  if (!server_.bodies.add(peer_, held_body_, bytes)) return false;
  held_body_ += bytes;
  return true;
}

void Connection::release_body() { server_.bodies.release(peer_, std::exchange(held_body_, 0)); }

asio::awaitable<void> Connection::wait_for_request() {
  if (buffer_.empty()) {
    buffer_.shrink_to_fit();
    const SteadyTime deadline = after(server_.config.keep_alive_timeout);
    if (co_await read_some(deadline, kIdleReadSize) == 0) co_return on(ConnectionEvent::peer_left);
  }
  on(ConnectionEvent::bytes_arrived);
}

asio::awaitable<void> Connection::read_head(HttpRequest& request, std::optional<HttpError>& error) {
  framing_ = {};
  const SteadyTime deadline = after(server_.config.head_timeout);
  std::size_t scanned = 0;
  for (;;) {
    if (buffer_.starts_with("\r\n")) {  // a stray blank line before a request is allowed
      buffer_.erase(0, 2);
      scanned = 0;
    }
    const HeadScan scan = scan_head(buffer_, scanned, server_.config.head_limits);
    error = scan.error;
    if (error) break;
    if (scan.end > 0) {
      error = parse_head(std::string_view(buffer_).substr(0, scan.end), server_.config.head_limits, request);
      if (error) break;
      request.head_bytes = scan.end;
      co_return on(ConnectionEvent::head_complete);
    }
    if (co_await read_some(deadline, kBodyReadSize) == 0) {
      if (!timed_out_) co_return on(ConnectionEvent::peer_left);
      error = HttpError{408, "The request head did not arrive in time."};
      break;
    }
    if (!server_.memory.hold_head(memory_, buffer_.size())) {
      error = HttpError{503, "Too many long request heads are being read; please try again."};
      break;
    }
  }
  on(ConnectionEvent::head_refused);
}

// Runs Boost's parser over head and body. `body` is complete when no error is returned.
asio::awaitable<std::optional<HttpError>> Connection::read_body(const HttpRequest& request, std::size_t limit,
                                                                std::string& body) {
  http::request_parser<http::string_body> parser;
  constexpr std::size_t kMaxHeaderLimit = std::numeric_limits<std::uint32_t>::max();
  parser.header_limit(
      static_cast<std::uint32_t>(std::min(server_.config.head_limits.max_head_bytes + 4, kMaxHeaderLimit)));
  parser.body_limit(limit);
  ErrorCode error;
  const auto refused = [&](const ErrorCode& code) {
    if (code == http::error::body_limit)
      return HttpError{413, concat("The request body may have at most ", limit, " bytes.")};
    return HttpError{400, "The request is malformed."};
  };
  std::size_t used = parser.put(asio::buffer(buffer_.data(), request.head_bytes), error);
  if (error || used != request.head_bytes || !parser.is_header_done()) {
    if (!error || error == http::error::need_more) error = make_error_code(http::error::bad_value);
    co_return refused(error);
  }
  buffer_.erase(0, used);
  if (request.has_body() && !buffer_.empty() && !hold_body(buffer_.size()))
    co_return no_room();  // body bytes that arrived with the head
  parser.eager(true);
  std::size_t framed = 0;  // body bytes with their chunk framing
  // Every byte extends the deadline a little, to at most body_timeout from now. This cuts off bodies that
  // trickle in, even if they began fast.
  const SteadyTime latest = after(server_.config.body_total_timeout);
  SteadyTime allowed_until = after(server_.config.body_timeout);
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
    const std::size_t received = co_await read_some(std::min(allowed_until, latest), kBodyReadSize);
    if (received == 0) {
      if (timed_out_) co_return HttpError{408, "The request body did not arrive in time."};
      on(ConnectionEvent::peer_left);
      co_return std::nullopt;
    }
    const auto earned = std::chrono::microseconds(1'000'000 * received / server_.config.min_body_rate);
    allowed_until = std::min(allowed_until + earned, after(server_.config.body_timeout));
    if (!hold_body(received)) co_return no_room();
  }
  body = std::move(parser.get().body());
  co_return std::nullopt;
}

}  // namespace pagoda
