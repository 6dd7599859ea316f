#include "api/errors.h"

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

std::string write_body(int status, std::string_view message, std::string_view param, std::string_view code) {
  std::string out;
  JsonWriter writer(out);
  const auto text_or_null = [&](std::string_view name, std::string_view text) {
    writer.key(name);
    text.empty() ? writer.null() : writer.string(text);
  };
  writer.begin_object().key("error").begin_object();
  writer.key("message").string(to_valid_utf8(message));
  writer.key("type").string(error_type(status));
  text_or_null("param", to_valid_utf8(param));
  text_or_null("code", code);
  writer.end_object().end_object();
  return out;
}

}  // namespace

int http_status(const Status& status) {
  switch (status.code()) {
    case StatusCode::ok:
      return 200;
    case StatusCode::invalid_argument:
    case StatusCode::unimplemented:  // a field that is not built in: OpenAI's status, which clients do not
                                     // retry
      return 400;
    case StatusCode::unauthenticated:
      return 401;
    case StatusCode::not_found:
      return 404;
    case StatusCode::already_exists:
      return 409;
    case StatusCode::resource_exhausted:
      return 429;
    case StatusCode::cancelled:
      return 499;
    case StatusCode::deadline_exceeded:
      return 408;
    case StatusCode::unavailable:
      return 503;
    case StatusCode::corrupt_data:
    case StatusCode::internal:
      return 500;
  }
  return 500;
}

std::string error_body(const Status& status) {
  const int http = http_status(status);
  if (http == 500)
    return write_body(500, "The server had an error while processing the request.", {}, "internal_error");
  return write_body(http, status.message(), status.param(), status.reason());
}

std::string error_body(int http_status, std::string_view message, std::string_view code) {
  return write_body(http_status, message, {}, code);
}

}  // namespace pagoda
