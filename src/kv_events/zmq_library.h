#pragma once
// ZmqLibrary: the functions of the system's libzmq.so.5 that are used here, found when they are asked for, so
// that a Pagoda that publishes nothing needs no ZeroMQ. ZmqSocket closes itself. Threads: a socket belongs to
// one at a time.
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

  // unavailable: it is not installed, or misses a function. Stays open until the process ends.
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
  // `limit` messages for each peer; those who take none lose more.
  static Result<ZmqSocket> create(const ZmqLibrary& zmq, void* context, int type, int limit);

  Status bind(const std::string& endpoint);
  Status connect(const std::string& endpoint);
  std::string endpoint() const;  // the last one bound, with its port
  // One frame of a message, without waiting. False: it could not be taken.
  bool send(std::string_view frame, bool more);
  // The next frame there is, of at most `size` bytes; what is longer is cut, and its true size returned. -1:
  // none.
  int receive(void* data, std::size_t size);
  bool more() const;  // the frame just received has others behind it
  void* get() const { return socket_.get(); }
  explicit operator bool() const { return socket_ != nullptr; }

 private:
  Status failure(const std::string& endpoint) const;
  const ZmqLibrary* zmq_ = nullptr;
  std::unique_ptr<void, CloseZmqSocket> socket_;
};

}  // namespace pagoda
