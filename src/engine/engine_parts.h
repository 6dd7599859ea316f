#pragma once
// EngineParts: the components of an engine (made by cli/assembly, sim/parts_factory.h, tests).
#include <memory>

#include "decoding/draft_proposer.h"
#include "engine/poison_record.h"
#include "kv_cache/kv_manager.h"
#include "model_runner/model_runner.h"
#include "scheduler/scheduler.h"

namespace pagoda {

struct EngineParts {
  std::unique_ptr<KvManager> kv;
  std::unique_ptr<Scheduler> scheduler;  // borrows kv
  std::unique_ptr<ModelRunner> runner;
  std::unique_ptr<DraftProposer> proposer = {};  // null: use EngineConfig::speculative
  PoisonRecord* poison = nullptr;  // borrowed; null: no request is refused for having crashed an engine
};

}  // namespace pagoda
