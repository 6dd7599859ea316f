#include <boost/json.hpp>

#include "base/assign_or_return.h"
#include "base/strings.h"
#include "cli/chat/chat_backend.h"
#include "cli/launch/served_model.h"
#include "hub/http_call.h"
#include "load/sse_scanner.h"
#include "loader/printable.h"

namespace pagoda {
namespace {

namespace json = boost::json;

constexpr int kTimeoutSeconds = 600;  // until the first token of a long prompt on a busy server
constexpr std::size_t kMaxAnswerBytes = std::size_t{16} << 20;

// Returns the text at `pointer`; empty if there is none.
std::string text_at(const json::value& value, std::string_view pointer) {
  boost::system::error_code error;
  const json::value* found = value.find_pointer(json::string_view(pointer.data(), pointer.size()), error);
  return found != nullptr && found->is_string() ? std::string(found->get_string()) : std::string();
}

json::value parsed(const std::string& text) {
  boost::system::error_code error;
  json::value value = json::parse(text, error);
  return error ? json::value() : value;
}

class ServerBackend final : public ChatBackend {
 public:
  ServerBackend(Url url, std::string key) : url_(std::move(url)), key_(std::move(key)) {}

  // If `model` is empty, uses the server's first model.
  Status choose_model(const std::string& model) {
    model_ = model;
    if (!model_.empty()) return ok_status();
    PAGODA_ASSIGN_OR_RETURN(ServedModel first, served_model(url_, key_, ""));
    model_ = std::move(first.name);
    return ok_status();
  }

  std::string name() const override { return concat(model_, " at ", url_.authority()); }

  Status answer(json::object body, const AnswerWatcher& watcher) override {
    body["model"] = model_;
    body["stream"] = true;
    SseScanner events;
    std::string other;  // body of a response that is not a stream
    Status failed;
    int status = 0;
    bool interrupted = false;
    const auto on_event = [&](std::string_view data) {
      if (data == "[DONE]") return;
      const json::value event = parsed(std::string(data));
      if (std::string message = text_at(event, "/error/message"); !message.empty())
        failed = unavailable(printable(message));
      watcher.show(text_at(event, "/choices/0/delta/content"));
    };
    const BodyTaker taker = {.begin =
                                 [&](const HttpHead& head) {
                                   status = head.status;
                                   return ok_status();
                                 },
                             .piece =
                                 [&](std::string_view piece) {
                                   if (watcher.interrupted()) {
                                     interrupted = true;
                                     return Status(StatusCode::cancelled, "interrupted");
                                   }
                                   if (status == 200)
                                     return events.feed(piece, on_event)
                                                ? failed
                                                : corrupt_data("an event of the stream is too long");
                                   if (other.size() + piece.size() <= kMaxAnswerBytes) other.append(piece);
                                   return ok_status();
                                 }};
    const auto head = http_call({.url = at("/chat/completions"),
                                 .json = json::serialize(body),
                                 .token = key_,
                                 .timeout_s = kTimeoutSeconds},
                                taker);
    if (interrupted) return ok_status();  // closing the connection also aborts the request on the server
    if (!failed.ok()) return failed;
    if (!head) return not_reached(head.error(), url_);
    if (status != 200) return refused(status, other);
    events.finish(on_event);
    return failed;
  }

 private:
  Url at(std::string_view path) const {
    Url url = url_;
    url.target += path;
    return url;
  }
  Status refused(int status, const std::string& body) const {
    const std::string message = text_at(parsed(body), "/error/message");
    return unavailable(
        concat(url_.authority(), ": ", status, message.empty() ? "" : ", ", printable(message)));
  }

  const Url url_;  // address of the API, ends with /v1
  const std::string key_;
  std::string model_;
};

}  // namespace

Result<std::unique_ptr<ChatBackend>> server_backend(const std::string& url, const EngineFlags& flags) {
  PAGODA_ASSIGN_OR_RETURN(auto parts, api_url(url));
  const std::vector<std::string>& keys = flags.server.api_keys;
  auto backend =
      std::make_unique<ServerBackend>(std::move(parts), keys.empty() ? std::string() : keys.front());
  PAGODA_RETURN_IF_ERROR(backend->choose_model(flags.model));
  return std::unique_ptr<ChatBackend>(std::move(backend));
}

}  // namespace pagoda
