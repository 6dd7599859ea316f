#include "hub/http_call.h"

#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>

#include "base/ascii.h"
#include "base/strings.h"
#include "base/version.h"
#include "hub/outgoing_connection.h"

namespace pagoda {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;
using ErrorCode = boost::system::error_code;

constexpr std::size_t kReadSize = std::size_t{128} << 10;
constexpr std::size_t kMaxFraming = std::size_t{1} << 20;

std::string_view view(beast::string_view text) { return {text.data(), text.size()}; }

// Collects the headers and passes the body on.
class AnswerParser final : public http::basic_parser<false> {
 public:
  AnswerParser(const BodyTaker& taker, bool head) : taker_(taker) {
    eager(true);
    skip(head);
    body_limit(boost::none);
    header_limit(64 << 10);
  }

  HttpHead& head() { return head_; }
  const Status& refused() const { return refused_; }

 private:
  void on_request_impl(http::verb, beast::string_view, beast::string_view, int, ErrorCode&) override {}
  void on_response_impl(int status, beast::string_view, int, ErrorCode&) override { head_.status = status; }
  void on_field_impl(http::field, beast::string_view name, beast::string_view value, ErrorCode&) override {
    head_.fields.emplace_back(lowered(view(name)), std::string(view(value)));
  }
  void on_header_impl(ErrorCode& error) override { stop_at(taker_.begin(head_), error); }
  void on_body_init_impl(const boost::optional<std::uint64_t>&, ErrorCode&) override {}
  std::size_t on_body_impl(beast::string_view bytes, ErrorCode& error) override {
    stop_at(taker_.piece(view(bytes)), error);
    return bytes.size();
  }
  void on_chunk_header_impl(std::uint64_t, beast::string_view, ErrorCode&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, beast::string_view bytes, ErrorCode& error) override {
    return on_body_impl(bytes, error);
  }
  void on_finish_impl(ErrorCode&) override {}

  void stop_at(Status status, ErrorCode& error) {
    if (status.ok()) return;
    refused_ = std::move(status);
    error = http::error::body_limit;
  }

  const BodyTaker& taker_;
  HttpHead head_;
  Status refused_;
};

std::string request_text(const HttpCall& call) {
  std::string text =
      concat(call.head           ? "HEAD "
             : call.json.empty() ? "GET "
                                 : "POST ",
             call.url.target, " HTTP/1.1\r\nHost: ", call.url.authority(), "\r\nUser-Agent: pagoda/",
             version(), "\r\nAccept-Encoding: identity\r\nConnection: close\r\n");
  if (!call.token.empty()) text += concat("Authorization: Bearer ", call.token, "\r\n");
  if (call.from > 0) text += concat("Range: bytes=", call.from, "-\r\n");
  if (!call.json.empty())
    text += concat("Content-Type: application/json\r\nContent-Length: ", call.json.size(), "\r\n");
  return text + "\r\n" + call.json;
}

}  // namespace

std::string_view HttpHead::field(std::string_view name) const {
  for (const auto& [each, value] : fields)
    if (each == name) return value;
  return {};
}

Result<HttpHead> http_call(const HttpCall& call, const BodyTaker& taker) {
  auto connection = OutgoingConnection::open(call.url, call.timeout_s);
  if (!connection) return connection.error();
  PAGODA_RETURN_IF_ERROR((*connection)->write(request_text(call)));
  AnswerParser parser(taker, call.head);
  std::vector<char> space(kReadSize);
  std::string buffer;  // bytes not parsed yet
  while (!parser.is_done()) {
    const auto count = (*connection)->read(space);
    if (!count) return count.error();
    ErrorCode error;
    if (*count == 0) {
      if (parser.got_some()) parser.put_eof(error);
      if (parser.got_some() && !error) break;
      return unavailable(parser.got_some() ? "the server closed the connection in the middle of its answer"
                                           : "the server closed the connection without an answer");
    }
    buffer.append(space.data(), *count);
    std::size_t done = 0;
    while (done < buffer.size() && !parser.is_done()) {
      const std::size_t taken = parser.put({buffer.data() + done, buffer.size() - done}, error);
      done += taken;
      if (error || taken == 0) break;
    }
    buffer.erase(0, done);
    if (!parser.refused().ok()) return parser.refused();
    if (error && error != http::error::need_more)
      return unavailable(concat("the answer is not HTTP: ", error.message()));
    if (buffer.size() > kMaxFraming) return unavailable("the answer is not HTTP: its framing does not end");
  }
  return std::move(parser.head());
}

}  // namespace pagoda
