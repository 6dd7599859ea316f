#include <boost/json.hpp>

#include "api/chat_sampling.h"
#include "base/assign_or_return.h"
#include "cli/assembly/assemble.h"
#include "cli/assembly/hub_settings.h"
#include "cli/chat/chat_backend.h"

namespace pagoda {
namespace {

class EngineBackend final : public ChatBackend {
 public:
  explicit EngineBackend(std::unique_ptr<AssembledEngine> engine) : engine_(std::move(engine)) {}
  ~EngineBackend() override { engine_->stop(); }
  std::string name() const override { return engine_->model_name(); }

  Status answer(boost::json::object body, const AnswerWatcher& watcher) override {
    const SamplingDefaults start = chat_sampling(engine_->api().defaults);
    const auto fill = [&body](const char* name, const auto& value) {
      if (value && !body.contains(name)) body[name] = *value;
    };
    fill("temperature", start.temperature);
    fill("top_k", start.top_k);
    fill("top_p", start.top_p);
    fill("min_p", start.min_p);
    return stream_answer(*engine_, CallKind::chat, body, RequestId{++next_request_}, watcher);
  }

 private:
  std::unique_ptr<AssembledEngine> engine_;
  std::uint64_t next_request_ = 0;
};

}  // namespace

Result<std::unique_ptr<ChatBackend>> engine_backend(EngineFlags flags) {
  PAGODA_RETURN_IF_ERROR(fetch_if_missing(flags));
  PAGODA_ASSIGN_OR_RETURN(auto engine, AssembledEngine::create(flags, AssembledEngine::Report::quiet));
  if (engine->tokenizer() == nullptr)
    return invalid_argument("the model has no tokenizer; give one with --tokenizer");
  return std::unique_ptr<ChatBackend>(std::make_unique<EngineBackend>(std::move(engine)));
}

}  // namespace pagoda
