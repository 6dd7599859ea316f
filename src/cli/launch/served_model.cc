#include "cli/launch/served_model.h"

#include <boost/json.hpp>

#include "base/assign_or_return.h"
#include "base/strings.h"
#include "hub/http_call.h"
#include "loader/printable.h"

namespace pagoda {
namespace {

namespace json = boost::json;

constexpr int kModelsTimeoutSeconds = 30;
constexpr std::size_t kMaxBytes = std::size_t{16} << 20;

// Returns the status and the JSON body of a GET.
Result<std::pair<int, json::value>> fetched(const Url& api, std::string_view path, const std::string& key) {
  Url url = api;
  url.target += path;
  std::string body;
  const BodyTaker keep = {.begin = [](const HttpHead&) { return ok_status(); },
                          .piece =
                              [&body](std::string_view piece) {
                                if (body.size() + piece.size() > kMaxBytes)
                                  return corrupt_data("the answer is larger than 16 MiB");
                                body.append(piece);
                                return ok_status();
                              }};
  const auto head = http_call({.url = url, .token = key, .timeout_s = kModelsTimeoutSeconds}, keep);
  if (!head) return not_reached(head.error(), api);
  boost::system::error_code error;
  json::value value = json::parse(body, error);
  return std::pair(head->status, error ? json::value() : std::move(value));
}

template <class T>
std::optional<T> found(const json::value& value, std::string_view pointer) {
  boost::system::error_code error;
  const json::value* at = value.find_pointer(json::string_view(pointer.data(), pointer.size()), error);
  if (at == nullptr) return {};
  const auto read = json::try_value_to<T>(*at);
  return read ? std::optional(*read) : std::nullopt;
}

}  // namespace

Status not_reached(const Status& error, const Url& api) {
  const bool is_named = error.message().find(api.authority()) != std::string::npos;
  return unavailable(concat(is_named ? "" : concat(api.authority(), ": "), error.message(),
                            ": start a server with `pagoda serve MODEL`, or name one with --url"));
}

Result<Url> api_url(const std::string& typed) {
  auto url = parse_url(typed);
  if (!url) return invalid_argument(concat("--url: '", printable(typed), "' is not http://HOST:PORT"));
  while (url->target.ends_with('/')) url->target.pop_back();
  if (!url->target.ends_with("/v1")) url->target += "/v1";
  return *std::move(url);
}

Result<ServedModel> served_model(const Url& api, const std::string& key, const std::string& name) {
  // The server may accept names that it does not list.
  const std::string path = name.empty() ? "/models" : concat("/models/", percent_encoded(name));
  PAGODA_ASSIGN_OR_RETURN(const auto answer, fetched(api, path, key));
  const auto& [status, body] = answer;
  if (status != 200) {
    const auto message = found<std::string>(body, "/error/message");
    const std::string why =
        concat(api.authority(), ": ", status, message ? ", " : "", printable(message.value_or("")));
    return status == 404 ? not_found(why) : unavailable(why);
  }
  const std::string row = name.empty() ? "/data/0" : "";
  ServedModel model{.name = name,
                    .max_model_len = found<std::int64_t>(body, row + "/max_model_len").value_or(0)};
  if (name.empty()) model.name = found<std::string>(body, row + "/id").value_or("");
  if (model.name.empty()) return not_found(concat(api.authority(), " lists no model"));
  return model;
}

}  // namespace pagoda
