#pragma once
// Maps a Status to an HTTP status and the message for the client. The only place with this mapping; each
// protocol has its own error body. Messages of `internal` and `corrupt_data` are not sent: the client gets a
// general sentence. Threads: any.
#include <string>

#include "base/status.h"

namespace pagoda {

// An error, independent of protocols.
struct ApiError {
  int status = 400;
  std::string message;
  std::string param = {};  // the field, by its dotted path; empty: none
  std::string code = {};   // for programs; empty: none
};

int http_status(const Status& status);
ApiError api_error(const Status& status);

}  // namespace pagoda
