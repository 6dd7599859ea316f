// The C library of include/pagoda_kv.h. BlockPool owns the pages and SlotMap maps them into slots. A page of
// the pool stands for one page in each tensor.
#include <pagoda_kv.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "kv_library/cuda_pages.h"
#include "kv_library/manager.h"
#include "model_runner/page_mapper.h"
#include "tensor/system_limits.h"

namespace {

template <class Arena>
class PagesOf final : public pagoda::kv_library::Pages {
 public:
  explicit PagesOf(Arena arena) : mapper_(std::move(arena)) {}
  pagoda::Status map(std::span<const pagoda::PageMapping> mappings) override { return mapper_.map(mappings); }
  void map_ahead(std::span<const pagoda::PageMapping> mappings) override { mapper_.map_ahead(mappings); }
  pagoda::MapStats take_stats() override { return mapper_.take_stats(); }
  std::byte* data() const override { return mapper_.arena().data(); }
  std::int64_t tensor_stride() const override { return mapper_.arena().tensor_stride(); }
  pagoda::Status copy(std::int64_t from, std::int64_t to, std::int32_t tensor, std::size_t bytes) override {
    const Arena& arena = mapper_.arena();
    if constexpr (std::is_same_v<Arena, pagoda::PageArena>) {
      std::copy_n(arena.page(from, tensor), bytes, arena.page(to, tensor));
      return pagoda::ok_status();
    } else {
      return arena.copy(from, to, tensor, bytes);
    }
  }
  pagoda::Status wait() override {
    if constexpr (std::is_same_v<Arena, pagoda::PageArena>)
      return pagoda::ok_status();
    else
      return mapper_.arena().wait();
  }
  pagoda::Status order(std::uint64_t stream) override {
    if constexpr (std::is_same_v<Arena, pagoda::PageArena>)
      return pagoda::ok_status();
    else
      return mapper_.arena().order(stream);
  }

 private:
  pagoda::PageMapperOf<Arena> mapper_;
};

}  // namespace

namespace {

using pagoda::BlockId;
using pagoda::concat;
using pagoda::kv_library::fail;

struct LastError {
  pagoda_kv_status status = PAGODA_KV_OK;
  std::string message;
};

LastError& last_error() {
  static thread_local LastError error;
  return error;
}

bool multiply(std::int64_t a, std::int64_t b, std::int64_t& out) {
  return !__builtin_mul_overflow(a, b, &out);
}

pagoda_kv_status check(const pagoda_kv_config& c, pagoda_kv& kv) {
  for (const std::int32_t value :
       {c.num_layers, c.num_heads, c.head_size, c.element_size, c.max_batch, c.max_context}) {
    if (value < 1) return fail(PAGODA_KV_INVALID, "every size and count must be at least 1");
  }
  if (c.eager_pages < 0) return fail(PAGODA_KV_INVALID, "eager_pages is negative");
  if (c.capacity_bytes < 1 || c.page_size < 1)
    return fail(PAGODA_KV_INVALID, "capacity_bytes and page_size must be positive");
  kv.token_bytes = c.element_size;
  for (const std::int32_t factor : {c.head_size, c.num_heads, c.slicing ? c.num_layers : 1}) {
    if (!multiply(kv.token_bytes, factor, kv.token_bytes) || kv.token_bytes > (std::int64_t{1} << 40))
      return fail(PAGODA_KV_INVALID, "a token is too large");
  }
  if (c.page_size % pagoda::kPageGranule != 0) {
    return fail(PAGODA_KV_PAGE_SIZE,
                concat("page_size ", c.page_size, " is not a multiple of ", pagoda::kPageGranule));
  }
  if (c.page_size % kv.token_bytes != 0 ||
      c.page_size / kv.token_bytes > std::numeric_limits<std::int32_t>::max()) {
    const std::int64_t exact = std::lcm(kv.token_bytes, pagoda::kPageGranule);
    const std::int64_t below = c.page_size / exact * exact;
    return fail(PAGODA_KV_PAGE_SIZE,
                concat("page_size ", c.page_size, " is not a multiple of the token size, ", kv.token_bytes,
                       " bytes in one tensor; the nearest that are: ",
                       below > 0 ? concat(below, ", ") : std::string(), below + exact));
  }
  kv.tokens_per_page = static_cast<std::int32_t>(c.page_size / kv.token_bytes);
  kv.num_tensors = c.slicing ? 2 : 2 * c.num_layers;
  return PAGODA_KV_OK;
}

// Reserves and commits the memory.
pagoda_kv_status open_pages(pagoda_kv& kv, const pagoda::PageArenaShape& shape) {
  const pagoda_kv_config& c = kv.config;
  const auto refused = [](const pagoda::Status& status, pagoda_kv_status otherwise) {
    return fail(status.code() == pagoda::StatusCode::unavailable          ? PAGODA_KV_NO_DEVICE
                : status.code() == pagoda::StatusCode::resource_exhausted ? PAGODA_KV_NO_MEMORY
                                                                          : otherwise,
                status.message());
  };
  if (c.cuda_driver != nullptr) {
    auto pages = pagoda::CudaPages::create(c.cuda_driver, c.cuda_device, shape);
    if (!pages) return refused(pages.error(), PAGODA_KV_PAGE_SIZE);
    if (const pagoda::Status status = pages->create_pages(0, shape.num_pages); !status.ok())
      return refused(status, PAGODA_KV_SYSTEM);
    kv.mapper = std::make_unique<PagesOf<pagoda::CudaPages>>(*std::move(pages));
    return PAGODA_KV_OK;
  }
  auto arena = pagoda::PageArena::create(shape);
  if (!arena) return fail(PAGODA_KV_ADDRESS_SPACE, arena.error().message());
  // An engine without residency control expects to learn at once if the memory is not available.
  if (const pagoda::Status status = arena->create_pages(0, shape.num_pages); !status.ok())
    return fail(PAGODA_KV_NO_MEMORY, status.message());
  if (!arena->populate(0, shape.num_pages))
    return fail(PAGODA_KV_NO_MEMORY, "the system has not enough memory for capacity_bytes");
  kv.mapper = std::make_unique<PagesOf<pagoda::PageArena>>(*std::move(arena));
  return PAGODA_KV_OK;
}

pagoda_kv_status start(pagoda_kv& kv) {
  const pagoda_kv_config& c = kv.config;
  const std::int64_t num_pages = std::min<std::int64_t>(c.capacity_bytes / c.page_size / kv.num_tensors,
                                                        std::numeric_limits<std::int32_t>::max());
  if (num_pages < 1) {
    return fail(PAGODA_KV_INVALID,
                concat("capacity_bytes ", c.capacity_bytes, " is less than one page, which takes ",
                       c.page_size, " bytes in each of ", kv.num_tensors, " tensors"));
  }
  const std::int32_t blocks_per_slot = kv.pages_for(c.max_context);
  if (c.max_batch > std::numeric_limits<std::int32_t>::max() / blocks_per_slot)
    return fail(PAGODA_KV_ADDRESS_SPACE, "max_batch x max_context needs too many pages; use larger pages");
  constexpr std::int64_t kForOthers = 4096;
  // Mappings of the driver do not count towards the system's limit.
  const std::int64_t max_regions = c.cuda_driver != nullptr
                                       ? std::numeric_limits<std::int32_t>::max()
                                       : (pagoda::available_mappings() - kForOthers) / kv.num_tensors;
  if (max_regions < 1 + 2 * std::int64_t{blocks_per_slot}) {
    return fail(PAGODA_KV_MAPPINGS,
                concat("one sequence may need ", (1 + 2 * std::int64_t{blocks_per_slot}) * kv.num_tensors,
                       " mappings, and vm.max_map_count leaves ",
                       std::max<std::int64_t>(0, max_regions) * kv.num_tensors,
                       ": a larger page_size or slicing needs fewer"));
  }
  if (const pagoda_kv_status status =
          open_pages(kv, {.page_bytes = c.page_size,
                          .num_tensors = kv.num_tensors,
                          .num_pages = num_pages,
                          .num_blocks = std::int64_t{c.max_batch} * blocks_per_slot,
                          .gaps_are_zeros = true});
      status != PAGODA_KV_OK)
    return status;
  kv.pool.emplace(static_cast<std::int32_t>(num_pages));
  kv.slots.emplace(pagoda::SlotMapConfig{.num_slots = c.max_batch,
                                         .blocks_per_slot = blocks_per_slot,
                                         .max_regions = max_regions,
                                         .deferred_reclaim = c.deferred_reclaim != 0,
                                         .map_ahead = c.map_ahead != 0,
                                         .num_eager_blocks = std::min(c.eager_pages, blocks_per_slot)},
                   *kv.pool);
  kv.sequences.resize(static_cast<std::size_t>(c.max_batch));
  kv.tensors = std::make_unique<std::atomic<std::int32_t>[]>(kv.sequences.size());
  return PAGODA_KV_OK;
}

void count(pagoda_kv& kv) {
  const pagoda::MapStats stats = kv.mapper->take_stats();
  kv.totals.calls += stats.calls;
  kv.totals.calls_ahead += stats.calls_ahead;
  kv.totals.seconds += stats.seconds;
  kv.totals.seconds_ahead += stats.seconds_ahead;
}

// Marks the manager as broken: it is unknown which pages are mapped.
pagoda_kv_status break_off(pagoda_kv& kv, const pagoda::Status& status) {
  kv.broken = status.message();
  return fail(PAGODA_KV_SYSTEM, kv.broken);
}

// Carries out the mappings that the slots have recorded.
pagoda_kv_status carry_out(pagoda_kv& kv) {
  kv.now.clear();
  kv.ahead.clear();
  kv.slots->take(kv.now, kv.ahead);
  // Kernels launched on tensors may still be running, and these mappings may remove pages that they read.
  if (kv.unwaited && !(kv.now.empty() && kv.ahead.empty())) {
    if (const pagoda::Status status = kv.mapper->wait(); !status.ok()) return break_off(kv, status);
    kv.unwaited = false;
  }
  if (const pagoda::Status status = kv.mapper->map(kv.now); !status.ok()) return break_off(kv, status);
  kv.mapper->map_ahead(kv.ahead);
  count(kv);
  return PAGODA_KV_OK;
}

void give_back(pagoda_kv& kv, std::int32_t slot) {
  pagoda_kv::Sequence& sequence = kv.sequences[static_cast<std::size_t>(slot)];
  for (auto page = sequence.pages.rbegin(); page != sequence.pages.rend(); ++page)
    kv.pool->release_one(*page);
  kv.unwaited |= sequence.seen || kv.all_seen;
  sequence = {};
  kv.slots->release(slot);  // unmapped in the next step
}

// Gives back the freed slots whose last tensor is deleted.
void collect(pagoda_kv& kv) {
  for (std::int32_t slot = 0; kv.num_leaving > 0 && slot < kv.config.max_batch; ++slot) {
    if (!kv.sequences[static_cast<std::size_t>(slot)].leaving || kv.tensors_of(slot) > 0) continue;
    give_back(kv, slot);
    --kv.num_leaving;
  }
}

// Returns false, and sets the error, if the manager cannot be used.
bool usable(pagoda_kv* kv, const char* call) {
  if (kv == nullptr) {
    fail(PAGODA_KV_INVALID, concat(call, ": the manager is NULL"));
    return false;
  }
  if (!kv->broken.empty()) {
    fail(PAGODA_KV_SYSTEM,
         concat(call, ": an earlier call has failed, and pages may be missing: ", kv->broken));
    return false;
  }
  collect(*kv);
  return true;
}

// Suffix of a "full" message while freed slots are kept by tensors.
std::string kept_by_tensors(const pagoda_kv& kv) {
  if (kv.num_leaving == 0) return {};
  return concat("; tensors keep ", kv.num_leaving, kv.num_leaving == 1 ? " freed slot" : " freed slots");
}

// Grows the sequence to the pages that `num_tokens` need. Requires enough free pages.
void grow(pagoda_kv& kv, std::int32_t slot, std::int32_t num_tokens) {
  pagoda_kv::Sequence& sequence = kv.sequences[static_cast<std::size_t>(slot)];
  const std::int32_t wanted = kv.pages_for(num_tokens);
  const auto held = static_cast<std::int32_t>(sequence.pages.size());
  for (std::int32_t at = held; at < wanted; ++at) {
    const BlockId previous = at > 0 ? sequence.pages.back() : pagoda::kNoPage;
    sequence.pages.push_back(*kv.slots->allocate(slot, at, previous));
  }
  if (wanted > held)
    kv.slots->show(slot, held, std::span(sequence.pages).subspan(static_cast<std::size_t>(held)));
  if (wanted > 0 && std::exchange(sequence.fresh, false)) kv.slots->show_eagerly(slot, wanted);
  sequence.num_tokens = std::max(sequence.num_tokens, num_tokens);
  if (kv.pages_for(sequence.num_tokens + 1) > static_cast<std::int32_t>(sequence.pages.size()) &&
      sequence.num_tokens < kv.config.max_context)
    kv.slots->show_ahead(slot, static_cast<std::int32_t>(sequence.pages.size()));
}

}  // namespace

pagoda_kv_status pagoda::kv_library::fail(pagoda_kv_status status, std::string message) {
  last_error() = {status, std::move(message)};
  return status;
}

extern "C" {

pagoda_kv_status pagoda_kv_init(const pagoda_kv_config* config, pagoda_kv** kv) {
  if (config == nullptr || kv == nullptr) return fail(PAGODA_KV_INVALID, "a pointer argument is NULL");
  *kv = nullptr;
  try {
    auto made = std::make_unique<pagoda_kv>();
    made->config = *config;
    if (config->cuda_driver != nullptr)
      made->config.cuda_driver = (made->driver = config->cuda_driver).c_str();
    if (const pagoda_kv_status status = check(*config, *made); status != PAGODA_KV_OK) return status;
    if (const pagoda_kv_status status = start(*made); status != PAGODA_KV_OK) return status;
    *kv = made.release();
    return PAGODA_KV_OK;
  } catch (const std::exception& error) {  // memory for internal tables
    return fail(PAGODA_KV_NO_MEMORY, error.what());
  }
}

void pagoda_kv_destroy(pagoda_kv* kv) {
  if (kv != nullptr) pagoda_kv::drop(kv);
}

std::int32_t pagoda_kv_alloc_reqid(pagoda_kv* kv, std::int32_t num_tokens) {
  if (!usable(kv, "alloc_reqid")) return -1;
  if (num_tokens < 0 || num_tokens > kv->config.max_context) {
    fail(PAGODA_KV_INVALID,
         concat("alloc_reqid: ", num_tokens, " tokens; max_context is ", kv->config.max_context));
    return -1;
  }
  const std::optional<std::int32_t> slot = kv->slots->acquire({}, kv->pages_for(num_tokens));
  if (!slot) {
    fail(PAGODA_KV_FULL, concat("all slots are in use", kept_by_tensors(*kv)));
    return -1;
  }
  kv->sequences[static_cast<std::size_t>(*slot)].active = true;
  return *slot;
}

pagoda_kv_status pagoda_kv_free_reqid(pagoda_kv* kv, std::int32_t reqid) {
  pagoda_kv::Sequence* const sequence = kv != nullptr ? kv->find(reqid) : nullptr;
  if (sequence == nullptr)
    return fail(PAGODA_KV_INVALID, concat("free_reqid: slot ", reqid, " is not in use"));
  sequence->active = false;
  if (kv->tensors_of(reqid) > 0) {
    sequence->leaving = true;
    ++kv->num_leaving;
  } else {
    give_back(*kv, reqid);
  }
  return PAGODA_KV_OK;
}

pagoda_kv_status pagoda_kv_step(pagoda_kv* kv, const std::int32_t* context_lengths) {
  if (context_lengths == nullptr) return fail(PAGODA_KV_INVALID, "step: context_lengths is NULL");
  if (!usable(kv, "step")) return kv == nullptr ? PAGODA_KV_INVALID : PAGODA_KV_SYSTEM;
  std::int64_t more = 0;
  for (std::int32_t slot = 0; slot < kv->config.max_batch; ++slot) {
    const std::int32_t length = context_lengths[slot];
    if (length == 0) continue;
    const pagoda_kv::Sequence* const sequence = kv->find(slot);
    if (length < 0 || length > kv->config.max_context || sequence == nullptr)
      return fail(PAGODA_KV_INVALID,
                  concat("step: slot ", slot, " is not in use, or ", length, " is more than max_context"));
    more += std::max(0, kv->pages_for(length) - static_cast<std::int32_t>(sequence->pages.size()));
  }
  if (more > kv->pool->num_free())
    return fail(PAGODA_KV_FULL,
                concat(more, " pages are needed, ", kv->pool->num_free(), " are free", kept_by_tensors(*kv)));
  if (!kv->slots->make_space(more)) return fail(PAGODA_KV_FULL, "no mappings are left (vm.max_map_count)");
  for (std::int32_t slot = 0; slot < kv->config.max_batch; ++slot) {
    if (context_lengths[slot] > 0) grow(*kv, slot, context_lengths[slot]);
  }
  return carry_out(*kv);
}

std::int32_t pagoda_kv_fork(pagoda_kv* kv, std::int32_t reqid, std::int32_t num_tokens) {
  if (!usable(kv, "fork")) return -1;
  pagoda_kv::Sequence* const parent = kv->find(reqid);
  if (parent == nullptr || num_tokens < 0 || num_tokens > parent->num_tokens) {
    fail(PAGODA_KV_INVALID, "fork: the slot is not in use, or has fewer tokens");
    return -1;
  }
  const std::int32_t num_shared = num_tokens / kv->tokens_per_page, num_pages = kv->pages_for(num_tokens);
  if (num_pages - num_shared > kv->pool->num_free() || !kv->slots->make_space(num_pages)) {
    fail(PAGODA_KV_FULL, concat("fork: no page is free", kept_by_tensors(*kv)));
    return -1;
  }
  const std::vector<BlockId> shared(parent->pages.begin(), parent->pages.begin() + num_shared);
  const BlockId partial =
      num_pages > num_shared ? parent->pages[static_cast<std::size_t>(num_shared)] : pagoda::kNoPage;
  const std::optional<std::int32_t> slot = kv->slots->acquire(shared, num_pages);
  if (!slot) {
    fail(PAGODA_KV_FULL, concat("fork: all slots are in use", kept_by_tensors(*kv)));
    return -1;
  }
  for (const BlockId page : shared) kv->pool->share(page);
  pagoda_kv::Sequence& child = kv->sequences[static_cast<std::size_t>(*slot)];
  child.active = true;
  child.pages = shared;
  child.num_tokens = num_tokens;
  kv->slots->show(*slot, 0, child.pages);
  grow(*kv, *slot, num_tokens);
  if (partial != pagoda::kNoPage) {
    const auto bytes = static_cast<std::size_t>(num_tokens % kv->tokens_per_page * kv->token_bytes);
    for (std::int32_t tensor = 0; tensor < kv->num_tensors; ++tensor) {
      if (const pagoda::Status status =
              kv->mapper->copy(index(partial), index(child.pages.back()), tensor, bytes);
          !status.ok()) {
        break_off(*kv, status);
        return -1;
      }
    }
    kv->has_copied = true;
  }
  if (carry_out(*kv) != PAGODA_KV_OK) return -1;
  return *slot;
}

void* pagoda_kv_key(const pagoda_kv* kv, std::int32_t layer) {
  return kv != nullptr ? kv->tensor_at(layer, 0) : nullptr;
}
void* pagoda_kv_value(const pagoda_kv* kv, std::int32_t layer) {
  return kv != nullptr ? kv->tensor_at(layer, 1) : nullptr;
}

pagoda_kv_layout pagoda_kv_get_layout(const pagoda_kv* kv) {
  if (kv == nullptr) return {};
  return {.slot_stride = kv->slot_stride(),
          .token_stride = kv->token_bytes,
          .num_tensors = kv->num_tensors,
          .tokens_per_page = kv->tokens_per_page,
          .num_pages = kv->pool->num_blocks()};
}

pagoda_kv_stats pagoda_kv_get_stats(pagoda_kv* kv) {
  if (kv == nullptr) return {};
  count(*kv);
  collect(*kv);
  const pagoda::SlotMapCounts& counts = kv->slots->counts();
  return {.free_pages = kv->pool->num_free(),
          .map_calls = kv->totals.calls,
          .map_calls_background = kv->totals.calls_ahead,
          .pages_mapped = counts.mapped_blocks,
          .pages_reused = counts.reused_blocks,
          .step_seconds = kv->totals.seconds,
          .background_seconds = kv->totals.seconds_ahead};
}

const char* pagoda_kv_last_error(void) { return last_error().message.c_str(); }
pagoda_kv_status pagoda_kv_last_status(void) { return last_error().status; }

}  // extern "C"
