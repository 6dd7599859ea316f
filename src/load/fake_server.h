#pragma once
// FakeServer, for tests and benchmarks only: an HTTP server on loopback that answers as its script says. Runs
// one coroutine per connection on a single thread, so that a thousand slow streams need no thread each.
// Threads: the script runs on the server's own thread.
#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <charconv>
#include <functional>
#include <string>
#include <string_view>
#include <thread>

#include "base/strings.h"

namespace pagoda {

class FakeServer {
 public:
  using Tcp = boost::asio::ip::tcp;
  static constexpr auto kAwait = boost::asio::as_tuple(boost::asio::use_awaitable);

  // The connection of one request, for the script.
  struct Call {
    Tcp::socket& socket;
    std::string head, body;
    std::int64_t number;      // index of the request, from 0
    std::int64_t connection;  // index of the connection, from 0

    // Sends the bytes unchanged. Returns false if the client has disconnected.
    boost::asio::awaitable<bool> send(std::string bytes) {
      const auto buffer = boost::asio::buffer(bytes);
      const auto [error, count] = co_await boost::asio::async_write(socket, buffer, kAwait);
      co_return !error;
    }
    boost::asio::awaitable<void> sleep(std::chrono::microseconds duration) {
      boost::asio::steady_timer timer(socket.get_executor(), duration);
      co_await timer.async_wait(kAwait);
    }
  };
  // Returns true to keep the connection for another request.
  using Script = std::function<boost::asio::awaitable<bool>(Call&)>;

  explicit FakeServer(Script script) : script_(std::move(script)), acceptor_(context_) {
    const Tcp::endpoint loopback(boost::asio::ip::address_v4::loopback(), 0);
    acceptor_.open(loopback.protocol());
    acceptor_.bind(loopback);
    acceptor_.listen(4096);
    port_ = acceptor_.local_endpoint().port();
    boost::asio::co_spawn(context_, accept(), boost::asio::detached);
    thread_ = std::thread([this] { context_.run(); });
  }
  ~FakeServer() {
    context_.stop();
    thread_.join();
  }
  FakeServer(const FakeServer&) = delete;

  std::uint16_t port() const { return port_; }
  std::int64_t num_requests() const { return num_requests_; }
  std::int64_t num_connections() const { return num_connections_; }
  std::int64_t max_open() const { return max_open_; }

  static std::string chunk(std::string_view data) {
    char size[20];
    const auto [end, error] = std::to_chars(size, size + sizeof size, data.size(), 16);
    return concat(std::string_view(size, static_cast<std::size_t>(end - size)), "\r\n", data, "\r\n");
  }
  static std::string event(std::string_view data) { return chunk(concat("data: ", data, "\n\n")); }
  static constexpr const char* kStreamHead =
      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: "
      "chunked\r\n\r\n";
  static std::string answer(std::string_view status, std::string_view body) {
    return concat("HTTP/1.1 ", status, "\r\nContent-Type: application/json\r\nContent-Length: ", body.size(),
                  "\r\n\r\n", body);
  }

 private:
  boost::asio::awaitable<void> accept() {
    for (;;) {
      auto [error, socket] = co_await acceptor_.async_accept(kAwait);
      if (error) co_return;
      boost::asio::co_spawn(context_, serve(std::move(socket)), boost::asio::detached);
    }
  }

  boost::asio::awaitable<void> serve(Tcp::socket socket) {
    socket.set_option(Tcp::no_delay(true));
    const std::int64_t connection = num_connections_++;
    std::string buffer;
    for (bool keep = true; keep;) {
      const auto into = boost::asio::dynamic_buffer(buffer);
      const auto [error, length] = co_await boost::asio::async_read_until(socket, into, "\r\n\r\n", kAwait);
      if (error) break;
      Call call{socket, buffer.substr(0, length), "", num_requests_++, connection};
      buffer.erase(0, length);
      std::size_t body_bytes = 0;
      if (const std::size_t at = call.head.find("Content-Length: "); at != std::string::npos)
        std::from_chars(call.head.data() + at + 16, call.head.data() + call.head.size(), body_bytes);
      if (buffer.size() < body_bytes) {
        const std::size_t missing = body_bytes - buffer.size();
        const auto rest = boost::asio::dynamic_buffer(buffer);
        const auto exactly = boost::asio::transfer_exactly(missing);
        const auto [body_error, count] = co_await boost::asio::async_read(socket, rest, exactly, kAwait);
        if (body_error) break;
      }
      call.body = buffer.substr(0, body_bytes);
      buffer.erase(0, body_bytes);
      open_ = open_ + 1;
      max_open_ = std::max<std::int64_t>(max_open_, open_);
      keep = co_await script_(call);
      open_ = open_ - 1;
    }
  }

  boost::asio::io_context context_{1};
  Script script_;
  Tcp::acceptor acceptor_;
  std::uint16_t port_ = 0;
  std::atomic<std::int64_t> num_requests_{0}, num_connections_{0}, max_open_{0};
  std::int64_t open_ = 0;
  std::thread thread_;
};

}  // namespace pagoda
