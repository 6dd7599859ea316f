#pragma once
// The fields of an engine and of a request in a run's log: one list for both directions, which Put writes and
// Get reads and checks. Only run_log.cc and run_log_step.cc include this. Threads: none.
#include <cmath>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "sim/byte_coding.h"
#include "sim/run_log.h"

namespace pagoda::run_log {

constexpr std::int64_t kMaxBlocks = std::int64_t{1} << 26;
constexpr std::int32_t kMaxBlockSize = 1 << 20;  // virtual memory: tokens in a large page
constexpr TimeNs kMaxTime = TimeNs{1} << 60;
constexpr std::int32_t kMaxInt32 = std::numeric_limits<std::int32_t>::max();
constexpr std::int32_t kMaxWidth = 4096;  // n, best_of, beams
constexpr std::int32_t kMaxGroups = 64, kMaxPagesPerRow = 1 << 16;
constexpr std::int64_t kMaxStateBytes = std::int64_t{1} << 40;

inline void put_tokens(ByteWriter& out, const std::vector<TokenId>& tokens) {
  out.number(tokens.size());
  for (const TokenId token : tokens) out.signed_number(token);
}

inline std::vector<TokenId> get_tokens(ByteReader& in) {
  std::vector<TokenId> out(in.count());
  for (TokenId& token : out) token = in.int32_in(0, kMaxInt32);
  return out;
}

// A single list of fields serves both directions: `Put` writes the fields, `Get` reads and checks them.
struct Put {
  ByteWriter& out;
  void operator()(const std::int32_t& value, std::int64_t, std::int64_t) { out.signed_number(value); }
  void operator()(const std::int64_t& value, std::int64_t, std::int64_t) { out.signed_number(value); }
  void operator()(const std::uint64_t& value) { out.number(value); }
  void operator()(const bool& value) { out.byte(value ? 1 : 0); }
  void operator()(const float& value) { out.real(value); }
  void operator()(const double& value) { out.real(value); }
  void operator()(const std::string& value) { out.text(value); }
  void operator()(const std::vector<TokenId>& value) { put_tokens(out, value); }
  template <class Enum>
  void choice(const Enum& value, int) {
    out.byte(static_cast<std::uint8_t>(value));
  }
  void optional(const std::optional<std::int32_t>& value, std::int32_t, std::int32_t) {
    out.byte(value ? 1 : 0);
    if (value) out.signed_number(*value);
  }
  void optional(const std::optional<std::uint64_t>& value) {
    out.byte(value ? 1 : 0);
    if (value) out.number(*value);
  }
};

struct Get {
  ByteReader& in;
  void operator()(std::int32_t& value, std::int64_t low, std::int64_t high) {
    value = static_cast<std::int32_t>(in.number_in(low, high));
  }
  void operator()(std::int64_t& value, std::int64_t low, std::int64_t high) {
    value = in.number_in(low, high);
  }
  void operator()(std::uint64_t& value) { value = in.number(); }
  void operator()(bool& value) { value = flag(); }
  void operator()(float& value) { value = in.real32(); }
  void operator()(double& value) { value = in.real(); }
  void operator()(std::string& value) { value = in.text(); }
  void operator()(std::vector<TokenId>& value) { value = get_tokens(in); }
  template <class Enum>
  void choice(Enum& value, int count) {
    const std::uint8_t byte = in.byte();
    if (byte >= count) in.fail();
    if (in.ok()) value = static_cast<Enum>(byte);
  }
  void optional(std::optional<std::int32_t>& value, std::int32_t low, std::int32_t high) {
    value.reset();
    if (flag()) value = in.int32_in(low, high);
  }
  void optional(std::optional<std::uint64_t>& value) {
    value.reset();
    if (flag()) value = in.number();
  }
  bool flag() {
    const std::uint8_t byte = in.byte();
    if (byte > 1) in.fail();
    return byte == 1;
  }
};

// Other settings that affect steps.
template <class Coder, class Engine>
void code_pace(Coder code, Engine& engine) {
  code(engine.target_itl_ms);
  bool speculates = engine.speculative.has_value();
  code(speculates);
  if (!speculates) return;
  SpeculativeConfig speculative = engine.speculative.value_or(SpeculativeConfig{});
  code(speculative.num_speculative_tokens, 1, kMaxInt32);
  code(speculative.prompt_lookup_max, 1, kMaxInt32);
  code(speculative.prompt_lookup_min, 1, kMaxInt32);
  code(speculative.disable_by_batch_size, 0, kMaxInt32);
  if constexpr (!std::is_const_v<Engine>) engine.speculative = speculative;
}

// Without groups: a single group with full attention.
template <class Coder, class Engine>
void code_groups(Coder code, Engine& engine) {
  bool has_groups = engine.kv_groups.has_value();
  code(has_groups);
  if (!has_groups) return;
  if constexpr (!std::is_const_v<Engine>) engine.kv_groups.emplace();
  auto& groups = *engine.kv_groups;
  auto count = static_cast<std::int32_t>(groups.size());
  code(count, 0, kMaxGroups);
  if constexpr (!std::is_const_v<Engine>) groups.resize(static_cast<std::size_t>(count));
  for (auto& group : groups) {
    code.choice(group.kind, 3);
    code(group.window, 0, kMaxInt32);
    if (group.is_state()) code(group.state_bytes, 0, kMaxStateBytes);
    code(group.pages_per_row, 1, kMaxPagesPerRow);
    if constexpr (!std::is_const_v<Engine>) group.tokens_per_row = engine.block_size;
  }
}

// A single number: 0 without a prefix cache, otherwise 1 + the eviction policy.
template <class Coder, class Engine>
void code_caching(Coder code, Engine& engine) {
  enum class Caching : std::uint8_t { none };
  auto caching = engine.enable_prefix_caching ? static_cast<Caching>(1 + static_cast<int>(engine.eviction))
                                              : Caching::none;
  code.choice(caching, 1 + static_cast<int>(std::size(kEvictionPolicies)));
  if constexpr (!std::is_const_v<Engine>) {
    engine.enable_prefix_caching = caching != Caching::none;
    if (engine.enable_prefix_caching) engine.eviction = static_cast<Eviction>(static_cast<int>(caching) - 1);
  }
}

template <class Coder, class Header>
void code_header(Coder code, Header& header) {
  code(header.modes.scheduler);
  code(header.modes.kv_manager);
  code(header.modes.reserve);
  code(header.num_blocks, 1, kMaxBlocks);
  code(header.num_swap_blocks, 0, kMaxBlocks);
  auto& engine = header.engine;
  code(engine.max_model_len, 2, kMaxInt32);
  code(engine.max_num_seqs, 1, kMaxInt32);
  code(engine.max_num_batched_tokens, 1, kMaxInt32);
  code(engine.max_adapters, 0, kMaxInt32);
  code(engine.block_size, 1, kMaxBlockSize);
  code_caching(code, engine);
  code(engine.enable_chunked_prefill);
  code.choice(engine.scheduling_policy, static_cast<int>(std::size(kSchedulingPolicies)));
  code.choice(engine.preemption_mode, static_cast<int>(std::size(kPreemptionPolicies)));
  code(engine.preemption_costs.per_block_copied);
  code(engine.preemption_costs.per_token_recomputed);
  code(engine.seed);
  code(engine.vocab_size, 0, kMaxInt32);
  code_pace(code, engine);
  code_groups(code, engine);
  code(engine.kv_tiers);
  code(engine.kv_peers);
  code(engine.async_scheduling);
  code(engine.rotation.original, 0, kMaxInt32);
  code(engine.rotation.by_length);
  bool has_slots = header.modes.slots.has_value();
  code(has_slots);
  if (!has_slots) return;
  if constexpr (!std::is_const_v<Header>) header.modes.slots.emplace();
  auto& slots = *header.modes.slots;
  code(slots.num_slots, 1, kMaxInt32);
  code(slots.blocks_per_slot, 1, kMaxInt32);
  code(slots.max_regions, 0, std::numeric_limits<std::int64_t>::max());
  code(slots.deferred_reclaim);
  code(slots.map_ahead);
  code(slots.num_eager_blocks, 0, kMaxInt32);
  code(header.modes.num_created, 0, kMaxInt32);
}

template <class Coder, class W>
void code_work(Coder code, W& work) {
  code.choice(work.kind, 3);
  code.choice(work.pooling.type, 3);
  code(work.pooling.dimensions, 0, kMaxInt32);
  code(work.pooling.normalize);
  code(work.whole_prompt);
}

// The adapter's id and the identity of its K/V. Decisions do not depend on its weights.
template <class Coder, class R>
void code_adapter(Coder code, R& request) {
  bool has_adapter = request.adapter != nullptr;
  code(has_adapter);
  if (!has_adapter) return;
  RequestAdapter adapter;
  if (request.adapter != nullptr) adapter = *request.adapter;
  auto id = static_cast<std::int32_t>(adapter.id);
  code(id, 1, kMaxInt32);
  code(adapter.name);
  code(adapter.identity);
  adapter.id = AdapterId{id};
  if constexpr (!std::is_const_v<R>)
    request.adapter = std::make_shared<const RequestAdapter>(std::move(adapter));
}

// The fields that affect decisions; sampling details do not.
template <class Coder, class R>
void code_request(Coder code, R& request) {
  auto& sampling = request.sampling;
  code(request.prompt_token_ids);
  code(request.priority, std::numeric_limits<std::int32_t>::min(), kMaxInt32);
  code(request.cache_salt);
  code(request.cache_hint.session);
  code(request.cache_hint.ttl_s, 0, kMaxInt32);
  code(request.cache_hint.priority, 0, 100);
  code(request.cache_hint.pin_s, 0, kMaxInt32);
  code(request.tenant);
  code(request.weight, 1, kMaxInt32);
  code_work(code, request.work);
  code_adapter(code, request);
  code(request.arrival_time, -kMaxTime, kMaxTime);
  code(sampling.n, 1, kMaxWidth);
  code(sampling.best_of, 1, kMaxWidth);
  code(sampling.temperature);
  code.optional(sampling.seed);
  code(sampling.max_tokens, 0, kMaxInt32);
  code(sampling.min_tokens, 0, kMaxInt32);
  code(sampling.ignore_eos);
  code(sampling.stop_token_ids);
  code(sampling.eos_token_ids);
  code.optional(sampling.logprobs, 0, kMaxInt32);
  code.optional(sampling.prompt_logprobs, 0, kMaxInt32);
  code(sampling.use_beam_search);
  code(sampling.beam_width, 0, kMaxWidth);
  code(sampling.length_penalty);
  code.choice(sampling.early_stopping, 3);
  code(sampling.num_beam_groups, 1, kMaxWidth);
  code(sampling.diversity_penalty);
}

}  // namespace pagoda::run_log
