#pragma once
// Status -> HTTP status and the error body that OpenAI clients read:
// {"error": {"message", "type", "param", "code"}}. The only place that knows this mapping.
// Messages of `internal` and `corrupt_data` are ours alone: the client sees a general sentence.
#include <string>

#include "base/status.h"

namespace pagoda {

int http_status(const Status& status);
std::string error_body(const Status& status);
// The same for errors that only HTTP knows (404 of a path, 405, 413, 431 …).
std::string error_body(int http_status, std::string_view message, std::string_view code = {});

}  // namespace pagoda
