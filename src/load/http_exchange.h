#pragma once
// HttpExchange: one client connection and the request-and-answer exchanges on it, one after the other.
// Not a pool, not a retry: http_load.cc has those. Only for load/: brings Asio.
//
// Time limits are not kept here by timers, which would be set anew with every chunk: whoever owns the
// exchange looks at waiting_since() now and then and calls time_out(). Threads: those of its executor, which
// must be one.
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

  // The reason it failed; empty: connected.
  boost::asio::awaitable<std::string> connect(const boost::asio::ip::tcp::resolver::results_type& addresses);
  // Sends `request` whole and gives the answer to `reader`. The reason it failed; empty: the answer is
  // complete.
  boost::asio::awaitable<std::string> run(const std::string& request, AnswerReader& reader);

  bool connecting() const { return connecting_; }
  bool reusable() const { return reusable_; }
  bool timed_out() const { return !time_out_reason_.empty(); }
  bool got_bytes() const { return got_bytes_; }  // whether the last request had any answer
  TimeNs waiting_since() const { return waiting_since_; }
  void time_out(std::string reason);

 private:
  boost::asio::ip::tcp::socket socket_;
  std::string buffer_;  // bytes that are not parsed yet
  std::vector<char> space_;
  std::string time_out_reason_;
  TimeNs waiting_since_ = 0;
  bool connecting_ = false, reusable_ = false, got_bytes_ = false;
};

}  // namespace pagoda
