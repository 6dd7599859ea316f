#include "load/http_exchange.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>

#include "base/strings.h"

namespace pagoda {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using ErrorCode = boost::system::error_code;

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
constexpr std::size_t kReadSize = std::size_t{32} << 10;

// Passes an answer's head and body to the reader as they arrive.
class AnswerParser final : public http::basic_parser<false> {
 public:
  explicit AnswerParser(AnswerReader& reader) : reader_(reader) {
    eager(true);
    body_limit(boost::none);
    header_limit(64 << 10);
  }

  void set_time(TimeNs now) { now_ = now; }

 private:
  void on_request_impl(http::verb, beast::string_view, beast::string_view, int, ErrorCode&) override {}
  void on_response_impl(int status, beast::string_view, int, ErrorCode&) override { status_ = status; }
  void on_field_impl(http::field field, beast::string_view, beast::string_view value, ErrorCode&) override {
    if (field != http::field::content_type) return;
    is_event_stream_ = beast::iequals(value.substr(0, kEventStream.size()), kEventStream);
    is_lines_ = beast::iequals(value.substr(0, kLines.size()), kLines);
  }
  void on_header_impl(ErrorCode&) override { reader_.head(status_, is_event_stream_, is_lines_); }
  void on_body_init_impl(const boost::optional<std::uint64_t>&, ErrorCode&) override {}
  std::size_t on_body_impl(beast::string_view bytes, ErrorCode& error) override {
    if (!reader_.body(now_, {bytes.data(), bytes.size()})) error = http::error::body_limit;
    return bytes.size();
  }
  void on_chunk_header_impl(std::uint64_t, beast::string_view, ErrorCode&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, beast::string_view bytes, ErrorCode& error) override {
    return on_body_impl(bytes, error);
  }
  void on_finish_impl(ErrorCode&) override {}

  static constexpr beast::string_view kEventStream = "text/event-stream";
  static constexpr beast::string_view kLines = "application/x-ndjson";

  AnswerReader& reader_;
  TimeNs now_ = 0;
  int status_ = 0;
  bool is_event_stream_ = false, is_lines_ = false;
};

}  // namespace

HttpExchange::HttpExchange(asio::any_io_executor executor)
    : socket_(std::move(executor)), space_(kReadSize) {}

void HttpExchange::time_out(std::string reason) {
  if (!time_out_reason_.empty()) return;
  time_out_reason_ = std::move(reason);
  ErrorCode ignored;
  socket_.close(ignored);
}

asio::awaitable<std::string> HttpExchange::connect(const asio::ip::tcp::resolver::results_type& addresses) {
  connecting_ = true;
  waiting_since_ = SteadyClock().now();
  const auto [error, endpoint] = co_await asio::async_connect(socket_, addresses, kAwait);
  connecting_ = false;
  if (!time_out_reason_.empty()) co_return time_out_reason_;
  if (error) co_return concat("cannot connect: ", error.message());
  ErrorCode ignored;
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  reusable_ = true;
  co_return std::string();
}

asio::awaitable<std::string> HttpExchange::run(const std::string& request, AnswerReader& reader) {
  reusable_ = false;
  got_bytes_ = false;
  waiting_since_ = SteadyClock().now();
  const auto bytes = asio::buffer(request);
  const auto [write_error, written] = co_await asio::async_write(socket_, bytes, kAwait);
  // The server may answer before it has received the whole request (413), so read the answer even if writing
  // failed.
  AnswerParser parser(reader);
  buffer_.clear();
  const auto space = asio::buffer(space_);
  while (!parser.is_done()) {
    const auto [error, count] = co_await socket_.async_read_some(space, kAwait);
    if (!time_out_reason_.empty()) co_return time_out_reason_;
    if (error == asio::error::eof) {
      ErrorCode end;
      if (parser.got_some()) parser.put_eof(end);
      if (parser.got_some() && !end) co_return std::string();
      co_return got_bytes_ ? "the server hung up in the midst of the answer"
                           : "the server hung up without an answer";
    }
    if (error) {
      if (write_error) co_return concat("cannot send: ", write_error.message());
      co_return concat("cannot read: ", error.message());
    }
    got_bytes_ = true;
    waiting_since_ = SteadyClock().now();
    parser.set_time(waiting_since_);
    buffer_.append(space_.data(), count);
    std::size_t done = 0;
    ErrorCode parse_error;
    while (done < buffer_.size() && !parser.is_done()) {
      const std::size_t taken =
          parser.put(asio::const_buffer(buffer_.data() + done, buffer_.size() - done), parse_error);
      done += taken;
      if (parse_error || taken == 0) break;
    }
    buffer_.erase(0, done);
    if (!reader.error().empty()) co_return reader.error();
    if (parse_error && parse_error != http::error::need_more)
      co_return concat("the answer is not HTTP: ", parse_error.message());
    if (buffer_.size() > (std::size_t{1} << 20)) co_return "the answer is not HTTP: endless framing";
  }
  reusable_ = parser.keep_alive() && !write_error && buffer_.empty();
  co_return std::string();
}

}  // namespace pagoda
