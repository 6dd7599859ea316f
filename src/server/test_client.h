#pragma once
// TestClient, for tests only: a blocking HTTP client that sends exactly the given bytes.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <string_view>

#include "base/strings.h"

namespace pagoda {

struct TestResponse {
  int status = 0;  // 0: the connection ended without an answer
  std::map<std::string, std::string> headers;
  std::string body;
};

class TestClient {
 public:
  // `receive_buffer`: size of the socket's receive buffer in bytes; 0: the kernel's default.
  explicit TestClient(std::uint16_t port, int receive_buffer = 0)
      : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (receive_buffer > 0) setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~TestClient() { close(); }
  TestClient(const TestClient&) = delete;

  bool connected() const { return connected_; }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  void finish_sending() { shutdown(fd_, SHUT_WR); }

  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
  }

  // Appends received bytes to pending(). Returns false at the end of the connection or after `timeout_ms`.
  bool receive(int timeout_ms = 10'000, std::size_t at_most = 65536) {
    pollfd entry{.fd = fd_, .events = POLLIN, .revents = 0};
    if (poll(&entry, 1, timeout_ms) <= 0) return false;
    char buffer[65536];
    const ssize_t n = recv(fd_, buffer, std::min(at_most, sizeof buffer), 0);
    if (n <= 0) return false;
    pending_.append(buffer, static_cast<std::size_t>(n));
    return true;
  }
  const std::string& pending() const { return pending_; }
  // True if the server has closed the connection without sending anything more.
  bool closed_by_peer() {
    while (receive()) {
    }
    char byte;
    return pending_.empty() && recv(fd_, &byte, 1, MSG_DONTWAIT) == 0;
  }

  bool wait_for(std::string_view text) {
    while (pending_.find(text) == std::string::npos)
      if (!receive()) return false;
    return true;
  }

  // Reads the next response; joins the chunks of a chunked body.
  TestResponse read_response(bool head_only = false) {
    TestResponse response;
    if (!wait_for("\r\n\r\n")) return response;
    const std::size_t end = pending_.find("\r\n\r\n");
    std::string head = pending_.substr(0, end + 2);
    pending_.erase(0, end + 4);
    response.status = std::atoi(head.c_str() + 9);
    for (std::size_t at = head.find("\r\n") + 2; at < head.size();) {
      const std::size_t line_end = head.find("\r\n", at);
      const std::string line = head.substr(at, line_end - at);
      const std::size_t colon = line.find(": ");
      if (colon != std::string::npos) response.headers[line.substr(0, colon)] = line.substr(colon + 2);
      at = line_end + 2;
    }
    if (head_only || response.status == 204) return response;
    if (response.headers.contains("content-length")) {
      const auto length = static_cast<std::size_t>(std::atol(response.headers["content-length"].c_str()));
      while (pending_.size() < length && receive()) {
      }
      response.body = pending_.substr(0, length);
      pending_.erase(0, length);
    } else if (response.headers.contains("transfer-encoding")) {
      for (;;) {
        if (!wait_for("\r\n")) return response;
        const auto size = static_cast<std::size_t>(std::strtoul(pending_.c_str(), nullptr, 16));
        const std::size_t begin = pending_.find("\r\n") + 2;
        while (pending_.size() < begin + size + 2 && receive()) {
        }
        response.body += pending_.substr(begin, size);
        pending_.erase(0, begin + size + 2);
        if (size == 0) break;
      }
    } else {
      while (receive()) {
      }
      response.body = std::exchange(pending_, {});
    }
    return response;
  }

  bool send_post(std::string_view path, std::string_view body, std::string_view more_headers = {}) {
    return send(concat("POST ", path,
                       " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ",
                       body.size(), "\r\n", more_headers, "\r\n", body));
  }
  TestResponse post(std::string_view path, std::string_view body, std::string_view more_headers = {}) {
    send_post(path, body, more_headers);
    return read_response();
  }
  TestResponse get(std::string_view path, std::string_view more_headers = {}) {
    send(concat("GET ", path, " HTTP/1.1\r\nHost: localhost\r\n", more_headers, "\r\n"));
    return read_response();
  }

 private:
  int fd_;
  bool connected_ = false;
  std::string pending_;
};

}  // namespace pagoda
