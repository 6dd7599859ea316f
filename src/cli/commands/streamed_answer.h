#pragma once
// stream_answer(): one call of the API by the engine in this process, its text handed on as it comes.
// Threads: the caller's; it blocks until the answer is over.
#include <boost/json/object.hpp>
#include <functional>
#include <string_view>

#include "api/openai/request_parser.h"
#include "base/status.h"
#include "cli/assembly/assemble.h"

namespace pagoda {

// Takes pieces of an answer's text as they come, and says whether to end it.
struct AnswerWatcher {
  std::function<void(std::string_view)> show;
  std::function<bool()> interrupted;
};

// `body`: of /v1/chat/completions or /v1/completions, with one prompt and one choice. `id`: of the engine's
// request, not used before. An answer that was interrupted is one. Else the error that the server would give.
Status stream_answer(AssembledEngine& engine, CallKind kind, const boost::json::object& body, RequestId id,
                     const AnswerWatcher& watcher);

}  // namespace pagoda
