#include "kv_events/zmq_library.h"

#include <array>

#include "base/opened_library.h"

namespace pagoda {

Result<const ZmqLibrary*> ZmqLibrary::open() {
  static ZmqLibrary zmq;
  static const bool found = [] {
    OpenedLibrary library;
    const auto find = [&](const char* name, auto& function) { return library.find(name, function).ok(); };
    const bool all = library.open(std::array{"libzmq.so.5"}).ok() && find("zmq_ctx_new", zmq.ctx_new) &&
                     find("zmq_ctx_term", zmq.ctx_term) && find("zmq_socket", zmq.socket) &&
                     find("zmq_close", zmq.close) && find("zmq_setsockopt", zmq.setsockopt) &&
                     find("zmq_getsockopt", zmq.getsockopt) && find("zmq_bind", zmq.bind) &&
                     find("zmq_connect", zmq.connect) && find("zmq_send", zmq.send) &&
                     find("zmq_recv", zmq.recv) && find("zmq_poll", zmq.poll) &&
                     find("zmq_errno", zmq.error_number) && find("zmq_strerror", zmq.error_text);
    library.keep();
    return all;
  }();
  if (!found) return unavailable("libzmq.so.5 (ZeroMQ) is not installed; Debian's package is libzmq5");
  return static_cast<const ZmqLibrary*>(&zmq);
}

Result<ZmqSocket> ZmqSocket::create(const ZmqLibrary& zmq, void* context, int type, int limit) {
  ZmqSocket out;
  out.zmq_ = &zmq;
  out.socket_ = {zmq.socket(context, type), CloseZmqSocket{&zmq}};
  if (!out.socket_) return unavailable(concat("ZeroMQ: ", zmq.error_text(zmq.error_number())));
  const int no_linger = 0;
  zmq.setsockopt(out.get(), ZMQ_SNDHWM, &limit, sizeof limit);
  zmq.setsockopt(out.get(), ZMQ_LINGER, &no_linger, sizeof no_linger);
  return out;
}

Status ZmqSocket::failure(const std::string& endpoint) const {
  return invalid_argument(concat(endpoint, ": ", zmq_->error_text(zmq_->error_number())));
}

Status ZmqSocket::bind(const std::string& endpoint) {
  return zmq_->bind(get(), endpoint.c_str()) == 0 ? ok_status() : failure(endpoint);
}

Status ZmqSocket::connect(const std::string& endpoint) {
  return zmq_->connect(get(), endpoint.c_str()) == 0 ? ok_status() : failure(endpoint);
}

std::string ZmqSocket::endpoint() const {
  char text[256] = {};
  std::size_t size = sizeof text - 1;
  return zmq_->getsockopt(get(), ZMQ_LAST_ENDPOINT, text, &size) == 0 ? std::string(text) : std::string();
}

bool ZmqSocket::send(std::string_view frame, bool more) {
  const int flags = ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0);
  return zmq_->send(get(), frame.data(), frame.size(), flags) >= 0;
}

int ZmqSocket::receive(void* data, std::size_t size) { return zmq_->recv(get(), data, size, ZMQ_DONTWAIT); }

bool ZmqSocket::more() const {
  int more = 0;
  std::size_t size = sizeof more;
  return zmq_->getsockopt(get(), ZMQ_RCVMORE, &more, &size) == 0 && more != 0;
}

}  // namespace pagoda
