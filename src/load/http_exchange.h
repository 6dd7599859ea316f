#pragma once
// HttpExchange: one client connection and the successive requests on it. Pooling and retries are in
// http_load.cc. Only for load/, because it includes Asio.
//
// It has no timers, which would have to be reset for every chunk: the owner polls waiting_since() and calls
// time_out(). Threads: those of its executor, which must be single-threaded.
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "load/answer_reader.h"

namespace pagoda {

class HttpExchange {
 public:
  explicit HttpExchange(boost::asio::any_io_executor executor);

  // Returns the reason for a failure; empty if connected.
  boost::asio::awaitable<std::string> connect(const boost::asio::ip::tcp::resolver::results_type& addresses);
  // Sends the whole request and passes the answer to `reader`. Returns the reason for a failure; empty if the
  // answer is complete.
  boost::asio::awaitable<std::string> run(const std::string& request, AnswerReader& reader);

  bool connecting() const { return connecting_; }
  bool reusable() const { return reusable_; }
  bool timed_out() const { return !time_out_reason_.empty(); }
  bool got_bytes() const { return got_bytes_; }  // whether any bytes of the last answer arrived
  TimeNs waiting_since() const { return waiting_since_; }
  void time_out(std::string reason);

 private:
  boost::asio::ip::tcp::socket socket_;
  std::string buffer_;  // bytes not parsed yet
  std::vector<char> space_;
  std::string time_out_reason_;
  TimeNs waiting_since_ = 0;
  bool connecting_ = false, reusable_ = false, got_bytes_ = false;
};

}  // namespace pagoda
