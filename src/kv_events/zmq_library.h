#pragma once
// ZmqLibrary: the functions of the system's libzmq.so.5 that are used here, loaded on first use, so that
// ZeroMQ is only needed for publishing. ZmqSocket closes itself. Threads: a socket is used by one thread at a
// time.
#include <zmq.h>

#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace pagoda {

struct ZmqLibrary {
  decltype(&zmq_ctx_new) ctx_new = nullptr;
  decltype(&zmq_ctx_term) ctx_term = nullptr;
  decltype(&zmq_socket) socket = nullptr;
  decltype(&zmq_close) close = nullptr;
  decltype(&zmq_setsockopt) setsockopt = nullptr;
  decltype(&zmq_getsockopt) getsockopt = nullptr;
  decltype(&zmq_bind) bind = nullptr;
  decltype(&zmq_connect) connect = nullptr;
  decltype(&zmq_send) send = nullptr;
  decltype(&zmq_recv) recv = nullptr;
  decltype(&zmq_poll) poll = nullptr;
  decltype(&zmq_errno) error_number = nullptr;
  decltype(&zmq_strerror) error_text = nullptr;

  // unavailable: the library is not installed or lacks a function. It stays open until the process ends.
  static Result<const ZmqLibrary*> open();
};

struct CloseZmqSocket {
  const ZmqLibrary* zmq = nullptr;
  void operator()(void* socket) const { zmq->close(socket); }
};
struct EndZmqContext {
  const ZmqLibrary* zmq = nullptr;
  void operator()(void* context) const { zmq->ctx_term(context); }
};

class ZmqSocket {
 public:
  ZmqSocket() = default;
  // `limit`: messages queued per peer; a slow peer loses further ones.
  static Result<ZmqSocket> create(const ZmqLibrary& zmq, void* context, int type, int limit);

  Status bind(const std::string& endpoint);
  Status connect(const std::string& endpoint);
  std::string endpoint() const;  // the last endpoint bound, with its port
  // Sends one frame of a message without waiting. Returns false if it could not be queued.
  bool send(std::string_view frame, bool more);
  // Receives the next frame available. A frame longer than `size` is truncated, and its full size returned;
  // -1 if there is none.
  int receive(void* data, std::size_t size);
  bool more() const;  // true if more frames of the message follow
  void* get() const { return socket_.get(); }
  explicit operator bool() const { return socket_ != nullptr; }

 private:
  Status failure(const std::string& endpoint) const;
  const ZmqLibrary* zmq_ = nullptr;
  std::unique_ptr<void, CloseZmqSocket> socket_;
};

}  // namespace pagoda
