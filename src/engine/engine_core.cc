#include "engine/engine_core.h"

#include "base/check.h"
#include "engine/engine_load.h"
#include "engine/take_snapshot.h"

namespace pagoda {

EngineCore::EngineCore(const EngineConfig& config, EngineParts parts, const Clock& clock,
                       MetricsRegistry& registry)
    : config_(config),
      parts_(std::move(parts)),
      clock_(clock),
      limits_({.max_model_len = config.max_model_len,
               .kv_cache_tokens = parts_.kv->geometry().tokens_alone(parts_.kv->num_blocks()),
               .max_num_seqs = config.max_num_seqs,
               .vocab_size = config.vocab_size}),
      metrics_(registry, config, *parts_.kv),
      outputs_(*parts_.scheduler, *parts_.kv, requests_, observers_),
      ends_(*parts_.scheduler, clock_, requests_, outputs_, observers_),
      intake_(config_, parts_, clock_, requests_, ids_),
      prefixes_(parts_, intake_, requests_, ends_, ids_, observers_, status_),
      sleep_(*parts_.kv, *parts_.runner, observers_),
      steps_(config_, parts_, clock_, requests_, prefixes_, ends_, outputs_, ids_, observers_, status_) {
  CHECK(pagoda::validate(config).ok());
  if (parts_.proposer != nullptr) steps_.drafts().set_proposer(std::move(parts_.proposer));
  observers_.add(metrics_);
}

EngineCore::~EngineCore() = default;

Status EngineCore::submit(Request request, std::shared_ptr<OutputSink> sink) {
  if (!status_.ok()) return status_;
  PAGODA_RETURN_IF_ERROR(validate(request));
  if (requests_.find(request.id) != nullptr)
    return invalid_argument("A request with this id is already being served.");
  observers_.notify(&StepObserver::on_submit, request);
  intake_.start(std::move(request), std::move(sink));
  return ok_status();
}

void EngineCore::abort(RequestId id) { ends_.abort({.id = id, .index = std::nullopt, .error = ok_status()}); }

void EngineCore::abort_sequence(RequestId id, std::int32_t index) {
  ends_.abort({.id = id, .index = index, .error = ok_status()});
}

void EngineCore::fail_all(const Status& error) {
  steps_.drain();
  ends_.fail_all(error);
}

void EngineCore::reset_prefix_cache(ModelRunner::TierRows tiers) {
  observers_.notify(&StepObserver::on_reset_prefix_cache);
  parts_.kv->sharing().clear_prefix_cache();
  parts_.runner->erase_tiers(tiers);
  clear_draft_cache();
  outputs_.settle();
}

void EngineCore::erase_cached(const CacheOwner& owner, std::function<void(Status)> done) {
  observers_.notify(&StepObserver::on_erase_cached, owner);
  parts_.runner->erase_from_tiers(parts_.kv->sharing().erase_from_cache(owner), std::move(done));
  clear_draft_cache();
  outputs_.settle();
}

void EngineCore::clear_draft_cache() {
  if (DraftProposer* const proposer = steps_.drafts().proposer()) proposer->clear_cache();
}

Status EngineCore::sleep(std::int32_t level) {
  steps_.drain();
  if (!status_.ok()) return status_;
  if (level > 0) reset_prefix_cache(ModelRunner::TierRows::in_this_process);
  return sleep_.sleep(level, steps_.drafts().proposer());
}

bool EngineCore::step() {
  const bool ran = run_step();
  observers_.notify(&StepObserver::on_turn_end);
  return ran;
}

bool EngineCore::run_step() {
  if (!status_.ok()) return false;
  ends_.end_late(steps_.budget().cost());
  if (!asleep()) return steps_.step();
  outputs_.settle();
  return false;
}

void EngineCore::add_observer(StepObserver& observer) {
  observers_.add(observer);
  if (CacheObserver* const cache = observer.cache_observer()) parts_.kv->sharing().set_cache_observer(cache);
}

void EngineCore::remove_observer(StepObserver& observer) {
  observers_.remove(observer);
  if (observer.cache_observer() != nullptr) parts_.kv->sharing().set_cache_observer(nullptr);
}

EngineSnapshot EngineCore::snapshot(SnapshotDetail detail) const {
  EngineSnapshot out = take_snapshot(config_, parts_, requests_, prefixes_, metrics_.totals(), detail);
  out.step = steps_.num_steps();
  out.now = clock_.now();
  return out;
}

EngineLoad EngineCore::load() const {
  EngineLoad out = engine_load(config_, *parts_.scheduler, requests_, steps_.budget(), outputs_.traffic());
  out.time = clock_.now();
  out.kv_tokens = static_cast<double>(limits_.kv_cache_tokens);
  return out;
}

void EngineCore::check_invariants() const {
  parts_.scheduler->check_invariants();
  const SchedulerCounts counts = parts_.scheduler->counts();
  CHECK(counts.waiting_groups + counts.running_groups + counts.swapped_groups == requests_.size());
  CHECK(requests_.num_added() == requests_.num_finished() + requests_.size());
  if (requests_.empty() && steps_.num_in_flight() == 0) {
    CHECK(!outputs_.holds_outputs());
    CHECK(parts_.kv->num_free_blocks() + parts_.kv->sharing().num_pinned_blocks() == parts_.kv->num_blocks());
    CHECK(parts_.kv->swap().num_free_swap_blocks() == parts_.kv->swap().num_swap_blocks());
  }
}

}  // namespace pagoda
