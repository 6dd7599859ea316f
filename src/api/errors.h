#pragma once
// Status -> HTTP status and what a client may be told of it. The only place that knows this mapping; the
// body's form is each protocol's own. Messages of `internal` and `corrupt_data` are ours alone: the client
// sees a general sentence. Threads: any.
#include <string>

#include "base/status.h"

namespace pagoda {

// An error as any protocol may write it.
struct ApiError {
  int status = 400;
  std::string message;
  std::string param = {};  // the field, by its dotted path; empty: none
  std::string code = {};   // for programs; empty: none
};

int http_status(const Status& status);
ApiError api_error(const Status& status);

}  // namespace pagoda
