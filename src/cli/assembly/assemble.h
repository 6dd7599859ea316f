#pragma once
// AssembledEngine: the only place where managers, schedulers and runners are chosen from flags and put
// together. Used by serve, chat, generate, bench, perplexity and doctor.
// Owner: the command; must outlive every user of client().
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

// The memory of the engines by use, in bytes; printed at start.
struct MemoryTable {
  std::int64_t weight_bytes = 0;     // packed, resident from the start
  std::int64_t embedding_bytes = 0;  // as stored
  std::int64_t mapped_bytes = 0;   // the part of both that is mapped from the weight cache; 0: all in memory
  std::int64_t kv_bytes = 0;       // reserved; becomes resident when used
  std::int64_t swap_bytes = 0;     // reserved; becomes resident when used
  std::int64_t offload_bytes = 0;  // reserved; becomes resident when used
  std::int64_t activation_bytes = 0;  // scratch of a step
  std::int64_t buffer_bytes = 0;      // logits, sampling
  std::int64_t draft_bytes = 0;       // a draft model's weights, K/V and steps; 0: no draft model
  std::int64_t adapter_bytes = 0;     // adapters loaded at start that requests can choose
  std::int64_t graph_bytes = 0;       // reserved for graphs of decode steps
  std::int64_t step_bytes = 0;        // activations and buffers of all ranks
  bool any_length = false;  // windows and states only: a sequence's memory does not grow with its length
  std::int64_t kv_tokens = 0;
  std::int64_t kv_bytes_per_token = 0;
  // The types resulting from the flags, such as "int8" for --dtype auto and "bfloat16" for --kv-cache-dtype
  // auto.
  std::string computed_in, kv_dtype;
  double concurrency = 0;  // number of sequences of maximum length that fit together
};

class AssembledEngine {
 public:
  // Loads the model, sizes the memory and starts the engine threads. Logs the memory table unless `quiet`.
  enum class Report { quiet, table };
  // `observer` is borrowed and may be null. With --record, a recorder is used instead.
  static Result<std::unique_ptr<AssembledEngine>> create(const EngineFlags& flags, Report report,
                                                         StepObserver* observer = nullptr);
  ~AssembledEngine();

  EngineClient& client();
  MetricsRegistry& metrics();
  const Tokenizer* tokenizer() const;         // null: the model has no tokenizer (ids only)
  const ChatTemplate* chat_template() const;  // null: no template
  const ApiContext& api() const;
  const MemoryTable& memory() const;
  // The memory of the process: accounts reserved at start, and the rest for serving clients.
  MemoryBudget& ledger();
  const std::string& model_name() const;  // first served name
  int num_threads() const;

  // Messages between the ranks, available after stop(); null without ranks.
  const RankSteps* rank_steps() const;

  // For a watchdog of each engine; see engine_thread.h. Callable from any thread.
  std::size_t num_engines() const;
  std::optional<std::uint64_t> beat(std::size_t engine) const;
  void give_up();

  // Stops the engine threads. Running requests get a final output.
  void stop();

  // Writes the packed weights now if they are not in the weight cache yet (weight_caching.h). For commands
  // that measure, or that would end before the background writer. Waits for a limited time; if the write does
  // not finish by then, no file is left.
  void finish_weight_writing();
  Status write_weights();  // waits without limit

 private:
  AssembledEngine();
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace pagoda
