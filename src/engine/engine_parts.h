#pragma once
// EngineParts: what an engine is put together from (cli/assembly, sim/parts_factory.h, tests).
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
  std::unique_ptr<DraftProposer> proposer = {};  // null: as EngineConfig::speculative says
  PoisonRecord* poison = nullptr;  // borrowed; null: no request is refused for what it did to an engine
};

}  // namespace pagoda
