#pragma once
// RankRunner: a ModelRunner that can be one rank of a tensor-parallel group, or is alone: the model's part
// that it computes, its memory and its share of the KV cache. On the CPU: LocalModelRunner; on a device:
// device_runner's. What it tells is of this rank alone. Threads: one caller, the engine thread.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "kernels/kv_layout.h"
#include "loader/model_source.h"
#include "model_runner/kv_group_plan.h"
#include "model_runner/kv_storage.h"
#include "model_runner/model_runner.h"
#include "models/decoder_config.h"
#include "request/kv_row_source.h"
#include "request/kv_tier.h"

namespace pagoda {

struct RunnerOptions;

// Every byte the runner takes, for the start-up table. Reserved sizes: KV, swap and activations become
// resident as they are used.
struct MemoryPlan {
  std::int64_t weight_bytes = 0;  // packed; embeddings are as large as they are in the file, beside them
  std::int64_t mapped_bytes = 0;  // part of both mapped from a packed file, which processes share
  std::int64_t kv_bytes = 0;
  std::int64_t swap_bytes = 0;
  std::int64_t activation_bytes = 0;  // a full batch
  std::int64_t buffer_bytes = 0;      // logits and sampling
  std::int64_t graph_bytes = 0;       // set aside for graphs, on a device
  std::int64_t total() const {
    return weight_bytes + kv_bytes + swap_bytes + activation_bytes + buffer_bytes + graph_bytes;
  }
};

class RankRunner : public ModelRunner {
 public:
  // Replaces the KV cache by one of this many blocks (pages of kv_plan()), all empty.
  virtual Status allocate_kv_cache(std::int64_t num_blocks, std::int64_t num_swap_blocks = 0) = 0;
  // The same in reserved address space (--kv-manager virtual); `layout` is that of a page of kv_plan(), with
  // the strides and the tokens of a block that plan_virtual_kv() gives. From then on kv_plan()'s rows have as
  // many tokens. invalid_argument: its pages are no multiples of page_granule().
  virtual Status allocate_virtual_kv(const KvLayout& layout, const VirtualKvShape& shape,
                                     std::int64_t num_blocks, std::int64_t num_swap_blocks) = 0;
  // Commits more pages of that, [first, first + count). Between steps.
  virtual Status create_kv_pages(std::int64_t first, std::int64_t count) = 0;

  // Takes two batches at once from now on. False: it does not.
  virtual bool run_ahead() { return false; }

  // Rows go to and come from these, the fastest first. Once, after the KV cache is allocated.
  virtual Status set_tiers(std::vector<std::shared_ptr<KvTier>> tiers,
                           std::unique_ptr<KvRowServer> server = nullptr) = 0;
  virtual std::size_t kv_block_bytes() const = 0;  // as tiers see it

  // A collective call, once every rank has loaded its part: finds the memory of the others, where parts of
  // rows go by more than messages.
  virtual Status connect() { return ok_status(); }

  virtual const DecoderConfig& config() const = 0;
  virtual const KvGroupPlan& kv_plan() const = 0;
  virtual KvLayout kv_page_layout() const = 0;
  virtual std::int64_t page_granule() const = 0;  // virtual mappings are multiples of it
  virtual MemoryPlan memory_plan() const = 0;
  // Whether a token may have other bits in another batch: by products of a device's own library.
  virtual bool bits_depend_on_batch() const { return false; }
  // The token embedding, where it is not the head.
  virtual std::int64_t embedding_bytes() const = 0;
  // Tensors of the file that the architecture has no use for; worth a warning when there are any.
  virtual const std::vector<std::string>& ignored_tensors() const = 0;
  // Elements of its vectors; 0 where it generates. Of rank 0.
  virtual std::int32_t vector_size() const = 0;
  // The device's memory that is left; on the CPU 0, since all ranks share the machine's.
  virtual std::int64_t device_free_bytes() const { return 0; }

  bool head_is_tied() const { return config().tied_head; }  // to the embedding
  std::int64_t kv_page_bytes() const { return static_cast<std::int64_t>(kv_page_layout().block_bytes()); }
};

// Loads a rank's part of a model.
using LoadRank = std::function<Result<std::unique_ptr<RankRunner>>(std::shared_ptr<const ModelSource> source,
                                                                   const RunnerOptions& options)>;

}  // namespace pagoda
