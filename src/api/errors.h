#pragma once
// Maps a Status to an HTTP status and the message for the client. The only place with this mapping; each
// protocol has its own error body. Messages of `internal` and `corrupt_data` errors are not sent: the client
// gets a generic message. Threads: any.
#include <string>

#include "base/status.h"

namespace pagoda {

// An error, independent of the protocol.
struct ApiError {
  int status = 400;
  std::string message;
  std::string param = {};  // dotted path of the field; empty if none
  std::string code = {};   // machine-readable; empty if none
};

int http_status(const Status& status);
ApiError api_error(const Status& status);

}  // namespace pagoda
