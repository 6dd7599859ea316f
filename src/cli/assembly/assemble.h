#pragma once
// AssembledEngine: the one place where concrete managers, schedulers and runners are chosen and put
// together from flags. What serve, chat, generate, bench, perplexity and doctor stand on.
// Owner: the command; must outlive every client of client().
#include <cstdint>
#include <memory>
#include <string>

#include "base/memory_budget.h"
#include "base/metrics.h"
#include "base/status.h"
#include "cli/flags/engine_flags.h"
#include "engine/client.h"
#include "text/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace pagoda {

struct ApiContext;
struct RankSteps;
class StepObserver;

// The bytes that the engines take, by use; printed at start.
struct MemoryTable {
  std::int64_t weight_bytes = 0;      // packed, resident from the start
  std::int64_t embedding_bytes = 0;   // as it is stored
  std::int64_t mapped_bytes = 0;      // part of both mapped from the weight cache; 0: in memory
  std::int64_t kv_bytes = 0;          // reserved; resident when used
  std::int64_t swap_bytes = 0;        // the same
  std::int64_t offload_bytes = 0;     // the same
  std::int64_t activation_bytes = 0;  // scratch of one step
  std::int64_t buffer_bytes = 0;      // logits, sampling
  std::int64_t draft_bytes = 0;       // a draft model's weights, K/V and steps; 0: there is none
  std::int64_t adapter_bytes = 0;     // adapters that requests choose, loaded at start
  std::int64_t graph_bytes = 0;       // set aside for graphs of decode steps
  std::int64_t step_bytes = 0;        // both of all ranks
  bool any_length = false;            // windows and states only: a sequence's memory does not grow with it
  std::int64_t kv_tokens = 0;
  std::int64_t kv_bytes_per_token = 0;
  // The types that the flags choose: "int8" of --dtype auto, "bfloat16" of --kv-cache-dtype auto.
  std::string computed_in, kv_dtype;
  double concurrency = 0;  // sequences of the longest length that fit together
};

class AssembledEngine {
 public:
  // Loads, sizes, starts the engine threads. Prints the memory table through the log unless `quiet`.
  enum class Report { quiet, table };
  // `observer`, which may be null, is borrowed. --record makes one of its own instead.
  static Result<std::unique_ptr<AssembledEngine>> create(const EngineFlags& flags, Report report,
                                                         StepObserver* observer = nullptr);
  ~AssembledEngine();

  EngineClient& client();
  MetricsRegistry& metrics();
  const Tokenizer* tokenizer() const;         // null: the model has none (ids only)
  const ChatTemplate* chat_template() const;  // null: none
  const ApiContext& api() const;
  const MemoryTable& memory() const;
  // The memory of the process: accounts taken at start, and what is left for serving clients.
  MemoryBudget& ledger();
  const std::string& model_name() const;  // first served name
  int num_threads() const;

  // Messages between the ranks, once stopped; null without ranks.
  const RankSteps* rank_steps() const;

  // For a watchdog of each engine; see engine_thread.h. Any thread.
  std::size_t num_engines() const;
  std::optional<std::uint64_t> beat(std::size_t engine) const;
  void give_up();

  // Stops the engine threads; requests still running get a final output.
  void stop();

  // Packed weights that are not in the weight cache yet are written now (weight_caching.h). For commands that
  // measure, or that end before the writer behind their answers would: those wait for so long at most, and
  // leave no file where it is not written by then.
  void finish_weight_writing();
  Status write_weights();  // waits for as long as it takes

 private:
  AssembledEngine();
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace pagoda
