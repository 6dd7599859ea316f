#include <boost/json.hpp>
#include <ctime>

#include "api/openai/request_parser.h"
#include "cli/assembly/assemble.h"
#include "cli/assembly/hub_settings.h"
#include "cli/chat/chat_backend.h"
#include "cli/commands/output_collector.h"
#include "text/detokenizer.h"

namespace pagoda {
namespace {

class EngineBackend final : public ChatBackend {
 public:
  explicit EngineBackend(std::unique_ptr<AssembledEngine> engine) : engine_(std::move(engine)) {}
  ~EngineBackend() override { engine_->stop(); }
  std::string name() const override { return engine_->model_name(); }

  Status answer(boost::json::object body, const AnswerWatcher& watcher) override {
    auto call = parse_call(CallKind::chat, boost::json::serialize(body),
                           {.id = "chat", .created = std::time(nullptr)}, engine_->api());
    if (!call) return call.error();
    Request request = std::move(call->requests.front());
    request.id = RequestId{++next_request_};
    request.arrival_time = SteadyClock().now();
    const RequestId id = request.id;
    IncrementalDetokenizer detokenizer(*engine_->tokenizer(), true, request.prompt_token_ids);
    OutputCollector collector;
    PAGODA_RETURN_IF_ERROR(engine_->client().submit(std::move(request), collector.make_sink()));
    for (bool finished = false, aborted = false; !finished;) {
      for (const OutputCollector::Item& item : collector.take()) {
        if (!item.output.error.ok()) return item.output.error;
        for (const SequenceDelta& delta : item.output.deltas) {
          for (const TokenId token : delta.token_ids) watcher.show(detokenizer.push(token));
        }
        finished = finished || item.output.finished;
      }
      if (watcher.interrupted() && !aborted) {
        engine_->client().abort(id);
        aborted = true;
      }
    }
    watcher.show(detokenizer.finish());
    return ok_status();
  }

 private:
  std::unique_ptr<AssembledEngine> engine_;
  std::uint64_t next_request_ = 0;
};

}  // namespace

Result<std::unique_ptr<ChatBackend>> engine_backend(EngineFlags flags) {
  PAGODA_RETURN_IF_ERROR(fetch_if_missing(flags));
  auto engine = AssembledEngine::create(flags, AssembledEngine::Report::quiet);
  if (!engine) return engine.error();
  if ((*engine)->tokenizer() == nullptr)
    return invalid_argument("the model has no tokenizer; give one with --tokenizer");
  return std::unique_ptr<ChatBackend>(std::make_unique<EngineBackend>(*std::move(engine)));
}

}  // namespace pagoda
