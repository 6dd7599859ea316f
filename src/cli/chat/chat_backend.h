#pragma once
// ChatBackend: who answers in `pagoda chat`: the engine in this process, or a running server. Bodies are
// those of /v1/chat/completions. Threads: one.
#include <boost/json/object.hpp>
#include <memory>
#include <string>

#include "base/status.h"
#include "cli/commands/streamed_answer.h"
#include "cli/flags/engine_flags.h"

namespace pagoda {

class ChatBackend {
 public:
  virtual ~ChatBackend() = default;
  virtual std::string name() const = 0;  // the model's or server's name, for people
  // An answer that was interrupted is one. Else the error that the server would give, or that it gave.
  virtual Status answer(boost::json::object body, const AnswerWatcher& watcher) = 0;
};

Result<std::unique_ptr<ChatBackend>> engine_backend(EngineFlags flags);

// `url`: of a server of OpenAI's API: http(s)://HOST:PORT, with or without /v1. The model is `flags.model`,
// or the first that the server has. A key is the first of `flags.server.api_keys`.
Result<std::unique_ptr<ChatBackend>> server_backend(const std::string& url, const EngineFlags& flags);

}  // namespace pagoda
