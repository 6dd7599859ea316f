#pragma once
// ChatBackend: answers the messages of `pagoda chat`: the engine in this process, or a running server. Bodies
// are those of /v1/chat/completions. Threads: one.
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
  virtual std::string name() const = 0;  // name of the model or server, for display
  // An interrupted answer is a success. Otherwise returns the error of the server, or the one it would
  // return.
  virtual Status answer(boost::json::object body, const AnswerWatcher& watcher) = 0;
};

Result<std::unique_ptr<ChatBackend>> engine_backend(EngineFlags flags);

// `url`: an OpenAI-compatible server, http(s)://HOST:PORT, with or without /v1. The model is `flags.model`,
// or the first model of the server. The key is the first of `flags.server.api_keys`.
Result<std::unique_ptr<ChatBackend>> server_backend(const std::string& url, const EngineFlags& flags);

}  // namespace pagoda
