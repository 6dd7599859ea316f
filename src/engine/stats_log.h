#pragma once
// StatsLog: the line that a busy engine logs every ten seconds, with vLLM's words. Threads: none; the engine
// thread's.
#include <functional>
#include <optional>
#include <string>

#include "base/clock.h"
#include "request/engine_snapshot.h"

namespace pagoda {

class StatsLog {
 public:
  static constexpr TimeNs kInterval = 10'000'000'000;
  using Take = std::function<EngineSnapshot()>;

  // After a step at `now`: the line, once an interval has passed. `take` is called only when it is needed. An
  // engine that was idle for an interval begins anew.
  std::optional<std::string> line(TimeNs now, const Take& take);

 private:
  TimeNs last_ = 0;  // 0: no step yet
  EngineTotals totals_;
};

}  // namespace pagoda
