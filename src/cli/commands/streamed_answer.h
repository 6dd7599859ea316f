#pragma once
// stream_answer(): makes an API call to the engine in this process and passes on its text as it is generated.
// Threads: the caller's; blocks until the answer is complete.
#include <boost/json/object.hpp>
#include <functional>
#include <string_view>

#include "api/openai/request_parser.h"
#include "base/status.h"
#include "cli/assembly/assemble.h"

namespace pagoda {

// Receives pieces of an answer's text as they arrive, and tells whether to abort the answer.
struct AnswerWatcher {
  std::function<void(std::string_view)> show;
  std::function<bool()> interrupted;
};

// `body`: a request of /v1/chat/completions or /v1/completions with one prompt and one choice. `id`: a new
// request id for the engine. An interrupted answer is a success. Otherwise returns the error that the server
// would return.
Status stream_answer(AssembledEngine& engine, CallKind kind, const boost::json::object& body, RequestId id,
                     const AnswerWatcher& watcher);

}  // namespace pagoda
