#pragma once
// RankRunner: a ModelRunner that can be one rank of a tensor-parallel group, or the only one: the rank's part
// of the model, its memory and its share of the KV cache. On the CPU: LocalModelRunner; on a device:
// device_runner's. All values are this rank's alone.
// Threads: one caller, the engine thread.
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

// All memory that the runner takes, for the start-up table. Sizes are reservations: KV cache, swap space and
// activations become resident as they are used.
struct MemoryPlan {
  std::int64_t weight_bytes = 0;  // packed, plus the embedding, which has its size in the file
  std::int64_t mapped_bytes = 0;  // part of both, mapped from a packed file that processes share
  std::int64_t kv_bytes = 0;
  std::int64_t swap_bytes = 0;
  std::int64_t activation_bytes = 0;  // for a full batch
  std::int64_t buffer_bytes = 0;      // logits and sampling
  std::int64_t graph_bytes = 0;       // reserved for graphs, on a device
  std::int64_t total() const {
    return weight_bytes + kv_bytes + swap_bytes + activation_bytes + buffer_bytes + graph_bytes;
  }
};

class RankRunner : public ModelRunner {
 public:
  // Replaces the KV cache by an empty one of `num_blocks` blocks (pages of kv_plan()).
  virtual Status allocate_kv_cache(std::int64_t num_blocks, std::int64_t num_swap_blocks = 0) = 0;
  // The same in reserved address space (--kv-manager virtual). `layout`: a page of kv_plan(), with the
  // strides and tokens per block from plan_virtual_kv(); rows of kv_plan() have as many tokens from then on.
  // invalid_argument: the page size is not a multiple of page_granule().
  virtual Status allocate_virtual_kv(const KvLayout& layout, const VirtualKvShape& shape,
                                     std::int64_t num_blocks, std::int64_t num_swap_blocks) = 0;
  // Commits more pages of the virtual cache: [first, first + count). Called between steps.
  virtual Status create_kv_pages(std::int64_t first, std::int64_t count) = 0;

  // Lets the runner take two batches at once from now on. Returns false if it does not support that.
  virtual bool run_ahead() { return false; }

  // Sets the tiers that rows go to and come from, fastest first. Called once, after the KV cache is
  // allocated.
  virtual Status set_tiers(std::vector<std::shared_ptr<KvTier>> tiers,
                           std::unique_ptr<KvRowServer> server = nullptr) = 0;
  virtual std::size_t kv_block_bytes() const = 0;  // as tiers see it

  // A collective call after every rank has loaded its part: locates the other ranks' memory, if parts of rows
  // are exchanged by other means than messages.
  virtual Status connect() { return ok_status(); }

  virtual const DecoderConfig& config() const = 0;
  virtual const KvGroupPlan& kv_plan() const = 0;
  virtual KvLayout kv_page_layout() const = 0;
  virtual std::int64_t page_granule() const = 0;  // virtual mappings are multiples of this
  virtual MemoryPlan memory_plan() const = 0;
  // True if a token's bits may differ between batches, because products come from a device's own library.
  virtual bool bits_depend_on_batch() const { return false; }
  // Bytes of the token embedding if it is separate from the output head.
  virtual std::int64_t embedding_bytes() const = 0;
  // Tensors of the file that the architecture does not use; if any, worth a warning.
  virtual const std::vector<std::string>& ignored_tensors() const = 0;
  // Elements of a vector; 0 if the model generates. Valid on rank 0.
  virtual std::int32_t vector_size() const = 0;
  // Free memory of the device; 0 on the CPU, where all ranks share the machine's memory.
  virtual std::int64_t device_free_bytes() const { return 0; }

  bool head_is_tied() const { return config().tied_head; }  // to the embedding
  std::int64_t kv_page_bytes() const { return static_cast<std::int64_t>(kv_page_layout().block_bytes()); }
};

// Loads a rank's part of a model.
using LoadRank = std::function<Result<std::unique_ptr<RankRunner>>(std::shared_ptr<const ModelSource> source,
                                                                   const RunnerOptions& options)>;

}  // namespace pagoda
