#include "api/error_body.h"

#include "api/json.h"

namespace pagoda {
namespace {

std::string_view error_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 408:
      return "timeout_error";
    case 429:
      return "rate_limit_error";
    case 503:
      return "service_unavailable_error";
    default:
      return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

}  // namespace

std::string openai_error_body(const ApiError& error) {
  std::string out;
  JsonWriter writer(out);
  const auto text_or_null = [&](std::string_view name, std::string_view text) {
    writer.key(name);
    text.empty() ? writer.null() : writer.string(text);
  };
  writer.begin_object().key("error").begin_object();
  writer.key("message").string(to_valid_utf8(error.message));
  writer.key("type").string(error_type(error.status));
  text_or_null("param", to_valid_utf8(error.param));
  text_or_null("code", error.code);
  writer.end_object().end_object();
  return out;
}

}  // namespace pagoda
