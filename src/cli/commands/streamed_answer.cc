#include "cli/commands/streamed_answer.h"

#include <boost/json.hpp>
#include <ctime>

#include "base/assign_or_return.h"
#include "cli/commands/output_collector.h"
#include "text/detokenizer.h"

namespace pagoda {

Status stream_answer(AssembledEngine& engine, CallKind kind, const boost::json::object& body, RequestId id,
                     const AnswerWatcher& watcher) {
  PAGODA_ASSIGN_OR_RETURN(auto call, parse_call(kind, boost::json::serialize(body),
                                                {.id = "cli", .created = std::time(nullptr)}, engine.api()));
  Request request = std::move(call.requests.front());
  request.id = id;
  request.arrival_time = SteadyClock().now();
  IncrementalDetokenizer detokenizer(*engine.tokenizer(), true, request.prompt_token_ids);
  OutputCollector collector;
  PAGODA_RETURN_IF_ERROR(engine.client().submit(std::move(request), collector.make_sink()));
  for (bool finished = false, aborted = false; !finished;) {
    for (const OutputCollector::Item& item : collector.take()) {
      if (!item.output.error.ok()) return item.output.error;
      for (const SequenceDelta& delta : item.output.deltas) {
        for (const TokenId token : delta.token_ids) watcher.show(detokenizer.push(token));
      }
      finished = finished || item.output.finished;
    }
    if (watcher.interrupted && watcher.interrupted() && !aborted) {
      engine.client().abort(id);
      aborted = true;
    }
  }
  watcher.show(detokenizer.finish());
  return ok_status();
}

}  // namespace pagoda
