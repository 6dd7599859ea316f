#include "api/errors.h"

namespace pagoda {

int http_status(const Status& status) {
  switch (status.code()) {
    case StatusCode::ok:
      return 200;
    case StatusCode::invalid_argument:
    case StatusCode::unimplemented:  // an unsupported field: OpenAI's status, which clients do not
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

ApiError api_error(const Status& status) {
  const int http = http_status(status);
  if (http == 500)
    return {.status = 500,
            .message = "The server had an error while processing the request.",
            .code = "internal_error"};
  return {.status = http,
          .message = std::string(status.message()),
          .param = std::string(status.param()),
          .code = std::string(status.reason())};
}

}  // namespace pagoda
