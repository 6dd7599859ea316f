#pragma once
// The implementation of pagoda_kv: page ownership (BlockPool), the mapping of pages to slots (SlotMap), their
// bytes, and the number of exported tensors per slot. Invariant: a slot with tensors is in use or leaving;
// its pages stay in place until its last tensor is deleted. Threads: one at a time, except that tensor
// deleters may decrement `tensors` and `references` from any thread.
// which tensors' deleters count down on any thread.
#include <pagoda_kv.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "kv_cache/slot_map.h"
#include "request/step_result.h"

namespace pagoda::kv_library {

// The bytes of the pages, and the object that maps them.
class Pages {
 public:
  virtual ~Pages() = default;
  virtual Status map(std::span<const PageMapping> mappings) = 0;
  virtual void map_ahead(std::span<const PageMapping> mappings) = 0;
  virtual MapStats take_stats() = 0;
  virtual std::byte* data() const = 0;
  virtual std::int64_t tensor_stride() const = 0;
  virtual Status copy(std::int64_t from, std::int64_t to, std::int32_t tensor, std::size_t bytes) = 0;
  // Waits until all work on the device is done. Host memory has nothing to wait for.
  virtual Status wait() { return ok_status(); }
  // Makes `stream` (the handle of a CUDA stream) wait for the copies made so far.
  virtual Status order(std::uint64_t /*stream*/) { return ok_status(); }
};

// Stores the message for pagoda_kv_last_error() and returns `status`.
pagoda_kv_status fail(pagoda_kv_status status, std::string message);

}  // namespace pagoda::kv_library

struct pagoda_kv {
  struct Sequence {
    bool active = false, leaving = false, fresh = true;  // leaving: freed, but tensors still refer to it
    bool seen = false;                                   // exported in a tensor since the sequence began
    std::vector<pagoda::BlockId> pages;
    std::int32_t num_tokens = 0;
  };
  pagoda_kv_config config = {};
  std::string driver;            // owns the string that config.cuda_driver points to
  std::int64_t token_bytes = 0;  // per tensor
  std::int32_t num_tensors = 0, tokens_per_page = 0;
  std::optional<pagoda::BlockPool> pool;
  std::optional<pagoda::SlotMap> slots;
  std::unique_ptr<pagoda::kv_library::Pages> mapper;
  std::vector<Sequence> sequences;  // by slot
  std::vector<pagoda::PageMapping> now, ahead;
  pagoda::MapStats totals;
  std::int32_t num_leaving = 0;
  std::string broken;       // reason why mappings may be missing; empty: none are missing
  bool unwaited = false;    // a slot exported in tensors was given back since the last wait
  bool all_seen = false;    // a tensor of all slots was exported
  bool has_copied = false;  // a fork copied a page
  std::unique_ptr<std::atomic<std::int32_t>[]> tensors;  // number of live tensors, by slot
  std::atomic<std::int64_t> references = 1;              // one for the owner and one for each tensor
  pid_t process = getpid();

  // Drops a reference. The last one frees all memory, except in a child of fork(2), which does not have the
  // thread to join.
  static void drop(pagoda_kv* kv) {
    if (kv->references.fetch_sub(1, std::memory_order_acq_rel) == 1 && getpid() == kv->process) delete kv;
  }
  ~pagoda_kv() {
    if (mapper != nullptr && unwaited) (void)mapper->wait().ok();
  }
  pagoda_kv() = default;
  pagoda_kv(const pagoda_kv&) = delete;
  pagoda_kv& operator=(const pagoda_kv&) = delete;

  std::int32_t pages_for(std::int32_t length) const {
    return static_cast<std::int32_t>((std::int64_t{length} + tokens_per_page - 1) / tokens_per_page);
  }
  std::int64_t slot_stride() const { return slots->config().blocks_per_slot * config.page_size; }
  // Returns the sequence of a slot; null if the slot is not in use.
  Sequence* find(std::int32_t reqid) {
    if (reqid < 0 || reqid >= config.max_batch) return nullptr;
    Sequence& sequence = sequences[static_cast<std::size_t>(reqid)];
    return sequence.active ? &sequence : nullptr;
  }
  std::int32_t tensors_of(std::int32_t reqid) const {
    return tensors[static_cast<std::size_t>(reqid)].load(std::memory_order_acquire);
  }
  // Returns the beginning of a layer's keys (0) or values (1); null if there is no such layer.
  std::byte* tensor_at(std::int32_t layer, std::int32_t which) const {
    if (layer < 0 || layer >= config.num_layers) return nullptr;
    if (config.slicing == 0) return mapper->data() + (2 * layer + which) * mapper->tensor_stride();
    // The layers of a token are adjacent.
    return mapper->data() + which * mapper->tensor_stride() + layer * (token_bytes / config.num_layers);
  }
};
