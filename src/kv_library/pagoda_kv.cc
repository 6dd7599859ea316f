// The C library of include/pagoda_kv.h. Pages are owned as BlockPool says and shown as SlotMap says; a page
// of the pool stands for one page in each tensor.
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
#include "kv_cache/slot_map.h"
#include "kv_library/cuda_pages.h"
#include "model_runner/page_mapper.h"
#include "tensor/system_limits.h"

namespace {

// The bytes, and the object that carries out mappings there.
class Pages {
 public:
  virtual ~Pages() = default;
  virtual pagoda::Status map(std::span<const pagoda::PageMapping> mappings) = 0;
  virtual void map_ahead(std::span<const pagoda::PageMapping> mappings) = 0;
  virtual pagoda::MapStats take_stats() = 0;
  virtual std::byte* data() const = 0;
  virtual std::int64_t tensor_stride() const = 0;
  virtual pagoda::Status copy(std::int64_t from, std::int64_t to, std::int32_t tensor, std::size_t bytes) = 0;
};

template <class Arena>
class PagesOf final : public Pages {
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

 private:
  pagoda::PageMapperOf<Arena> mapper_;
};

}  // namespace

struct pagoda_kv {
  struct Sequence {
    bool active = false, fresh = true;
    std::vector<pagoda::BlockId> pages;
    std::int32_t num_tokens = 0;
  };
  pagoda_kv_config config = {};
  std::int64_t token_bytes = 0;  // in one tensor
  std::int32_t num_tensors = 0, tokens_per_page = 0;
  std::optional<pagoda::BlockPool> pool;
  std::optional<pagoda::SlotMap> slots;
  std::unique_ptr<Pages> mapper;
  std::vector<Sequence> sequences;  // by slot
  std::vector<pagoda::PageMapping> now, ahead;
  pagoda::MapStats totals;

  std::int32_t pages_for(std::int32_t num_tokens) const {
    return static_cast<std::int32_t>((std::int64_t{num_tokens} + tokens_per_page - 1) / tokens_per_page);
  }
  void count() {
    const pagoda::MapStats stats = mapper->take_stats();
    totals.calls += stats.calls;
    totals.calls_ahead += stats.calls_ahead;
    totals.seconds += stats.seconds;
    totals.seconds_ahead += stats.seconds_ahead;
  }
};

namespace {

using pagoda::BlockId;
using pagoda::concat;

std::string& last_error() {
  static thread_local std::string error;
  return error;
}

pagoda_kv_status fail(pagoda_kv_status status, std::string message) {
  last_error() = std::move(message);
  return status;
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

// The bytes, committed.
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
  // An engine that knows nothing of residency wants to hear at once what it cannot have.
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
  // A driver's mappings are not the system's.
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
                          .num_blocks = std::int64_t{c.max_batch} * blocks_per_slot});
      status != PAGODA_KV_OK)
    return status;
  kv.pool.emplace(static_cast<std::int32_t>(num_pages));
  kv.slots.emplace(pagoda::SlotMapConfig{.num_slots = c.max_batch,
                                         .blocks_per_slot = blocks_per_slot,
                                         .max_regions = max_regions,
                                         .deferred_reclaim = c.deferred_reclaim != 0,
                                         .map_ahead = c.map_ahead != 0,
                                         .num_eager_blocks = c.eager_pages},
                   *kv.pool);
  kv.sequences.resize(static_cast<std::size_t>(c.max_batch));
  return PAGODA_KV_OK;
}

// Carries out what the slots have recorded.
pagoda_kv_status carry_out(pagoda_kv& kv) {
  kv.now.clear();
  kv.ahead.clear();
  kv.slots->take(kv.now, kv.ahead);
  if (const pagoda::Status status = kv.mapper->map(kv.now); !status.ok())
    return fail(PAGODA_KV_SYSTEM, status.message());
  kv.mapper->map_ahead(kv.ahead);
  kv.count();
  return PAGODA_KV_OK;
}

pagoda_kv::Sequence* find(pagoda_kv* kv, std::int32_t reqid) {
  if (kv == nullptr || reqid < 0 || reqid >= kv->config.max_batch) return nullptr;
  pagoda_kv::Sequence& sequence = kv->sequences[static_cast<std::size_t>(reqid)];
  return sequence.active ? &sequence : nullptr;
}

// As many pages as `num_tokens` need; there are enough.
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

extern "C" {

pagoda_kv_status pagoda_kv_init(const pagoda_kv_config* config, pagoda_kv** kv) {
  if (config == nullptr || kv == nullptr) return fail(PAGODA_KV_INVALID, "a pointer argument is NULL");
  *kv = nullptr;
  try {
    auto made = std::make_unique<pagoda_kv>();
    made->config = *config;
    if (const pagoda_kv_status status = check(*config, *made); status != PAGODA_KV_OK) return status;
    if (const pagoda_kv_status status = start(*made); status != PAGODA_KV_OK) return status;
    *kv = made.release();
    return PAGODA_KV_OK;
  } catch (const std::exception& error) {  // memory for its own tables
    return fail(PAGODA_KV_NO_MEMORY, error.what());
  }
}

void pagoda_kv_destroy(pagoda_kv* kv) { delete kv; }

std::int32_t pagoda_kv_alloc_reqid(pagoda_kv* kv, std::int32_t num_tokens) {
  if (kv == nullptr || num_tokens < 0 || num_tokens > kv->config.max_context) {
    fail(PAGODA_KV_INVALID, "alloc_reqid: more tokens than max_context");
    return -1;
  }
  const std::optional<std::int32_t> slot = kv->slots->acquire({}, kv->pages_for(num_tokens));
  if (!slot) {
    fail(PAGODA_KV_FULL, "all slots are in use");
    return -1;
  }
  kv->sequences[static_cast<std::size_t>(*slot)] = {
      .active = true, .fresh = true, .pages = {}, .num_tokens = 0};
  return *slot;
}

pagoda_kv_status pagoda_kv_free_reqid(pagoda_kv* kv, std::int32_t reqid) {
  pagoda_kv::Sequence* const sequence = find(kv, reqid);
  if (sequence == nullptr) return fail(PAGODA_KV_INVALID, "free_reqid: the slot is not in use");
  for (auto page = sequence->pages.rbegin(); page != sequence->pages.rend(); ++page)
    kv->pool->release_one(*page);
  *sequence = {};
  kv->slots->release(reqid);
  return PAGODA_KV_OK;  // unmapping goes with the next step
}

pagoda_kv_status pagoda_kv_step(pagoda_kv* kv, const std::int32_t* context_lengths) {
  if (kv == nullptr || context_lengths == nullptr)
    return fail(PAGODA_KV_INVALID, "a pointer argument is NULL");
  std::int64_t more = 0;
  for (std::int32_t slot = 0; slot < kv->config.max_batch; ++slot) {
    const std::int32_t length = context_lengths[slot];
    if (length == 0) continue;
    const pagoda_kv::Sequence* const sequence = find(kv, slot);
    if (length < 0 || length > kv->config.max_context || sequence == nullptr)
      return fail(PAGODA_KV_INVALID,
                  concat("step: slot ", slot, " is not in use, or ", length, " is more than max_context"));
    more += std::max(0, kv->pages_for(length) - static_cast<std::int32_t>(sequence->pages.size()));
  }
  if (more > kv->pool->num_free())
    return fail(PAGODA_KV_FULL, concat(more, " pages are needed, ", kv->pool->num_free(), " are free"));
  if (!kv->slots->make_space(more)) return fail(PAGODA_KV_FULL, "no mappings are left (vm.max_map_count)");
  for (std::int32_t slot = 0; slot < kv->config.max_batch; ++slot) {
    if (context_lengths[slot] > 0) grow(*kv, slot, context_lengths[slot]);
  }
  return carry_out(*kv);
}

std::int32_t pagoda_kv_fork(pagoda_kv* kv, std::int32_t reqid, std::int32_t num_tokens) {
  pagoda_kv::Sequence* const parent = find(kv, reqid);
  if (parent == nullptr || num_tokens < 0 || num_tokens > parent->num_tokens) {
    fail(PAGODA_KV_INVALID, "fork: the slot is not in use, or has fewer tokens");
    return -1;
  }
  const std::int32_t num_shared = num_tokens / kv->tokens_per_page, num_pages = kv->pages_for(num_tokens);
  if (num_pages - num_shared > kv->pool->num_free() || !kv->slots->make_space(num_pages)) {
    fail(PAGODA_KV_FULL, "fork: no page is free");
    return -1;
  }
  const std::vector<BlockId> shared(parent->pages.begin(), parent->pages.begin() + num_shared);
  const BlockId partial =
      num_pages > num_shared ? parent->pages[static_cast<std::size_t>(num_shared)] : pagoda::kNoPage;
  const std::optional<std::int32_t> slot = kv->slots->acquire(shared, num_pages);
  if (!slot) {
    fail(PAGODA_KV_FULL, "all slots are in use");
    return -1;
  }
  for (const BlockId page : shared) kv->pool->share(page);
  pagoda_kv::Sequence& child = kv->sequences[static_cast<std::size_t>(*slot)];
  child = {.active = true, .fresh = true, .pages = shared, .num_tokens = num_tokens};
  kv->slots->show(*slot, 0, child.pages);
  grow(*kv, *slot, num_tokens);
  if (partial != pagoda::kNoPage) {
    const auto bytes = static_cast<std::size_t>(num_tokens % kv->tokens_per_page * kv->token_bytes);
    for (std::int32_t tensor = 0; tensor < kv->num_tensors; ++tensor) {
      if (const pagoda::Status status =
              kv->mapper->copy(index(partial), index(child.pages.back()), tensor, bytes);
          !status.ok()) {
        fail(PAGODA_KV_SYSTEM, status.message());
        return -1;
      }
    }
  }
  if (carry_out(*kv) != PAGODA_KV_OK) return -1;
  return *slot;
}

static void* tensor_of(const pagoda_kv* kv, std::int32_t layer, std::int32_t which) {
  if (kv == nullptr || layer < 0 || layer >= kv->config.num_layers) return nullptr;
  const Pages& arena = *kv->mapper;
  if (kv->config.slicing == 0) return arena.data() + (2 * layer + which) * arena.tensor_stride();
  // All layers of a token side by side.
  return arena.data() + which * arena.tensor_stride() + layer * (kv->token_bytes / kv->config.num_layers);
}

void* pagoda_kv_key(const pagoda_kv* kv, std::int32_t layer) { return tensor_of(kv, layer, 0); }
void* pagoda_kv_value(const pagoda_kv* kv, std::int32_t layer) { return tensor_of(kv, layer, 1); }

pagoda_kv_layout pagoda_kv_get_layout(const pagoda_kv* kv) {
  if (kv == nullptr) return {};
  return {.slot_stride = kv->slots->config().blocks_per_slot * kv->config.page_size,
          .token_stride = kv->token_bytes,
          .num_tensors = kv->num_tensors,
          .tokens_per_page = kv->tokens_per_page,
          .num_pages = kv->pool->num_blocks()};
}

pagoda_kv_stats pagoda_kv_get_stats(pagoda_kv* kv) {
  if (kv == nullptr) return {};
  kv->count();
  const pagoda::SlotMapCounts& counts = kv->slots->counts();
  return {.free_pages = kv->pool->num_free(),
          .map_calls = kv->totals.calls,
          .map_calls_background = kv->totals.calls_ahead,
          .pages_mapped = counts.mapped_blocks,
          .pages_reused = counts.reused_blocks,
          .step_seconds = kv->totals.seconds,
          .background_seconds = kv->totals.seconds_ahead};
}

const char* pagoda_kv_last_error(void) { return last_error().c_str(); }

}  // extern "C"
