#include "page/live_frames.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "api/json.h"

namespace pagoda {
namespace {

constexpr std::int64_t kTellPlace = 50;  // beyond it, a place in the queue is "50 or more"
constexpr std::size_t kMaxEvents = 600;  // per frame; further events are only counted
constexpr std::string_view kEventNames[] = {"allocate", "free",     "evict",   "hit",    "fork",
                                            "copy",     "swap_out", "swap_in", "preempt"};
constexpr std::string_view kGroupStates[] = {"waiting", "arriving", "running", "swapped", "finished"};
constexpr std::string_view kSequenceStates[] = {"parked", "arriving", "resident", "swapped", "finished"};
constexpr std::string_view kCodes[] = {
    "running",   "parked",   "swapped_blocks", "swapped_turn", "before", "swapped_first", "gang_first",
    "sequences", "adapters", "blocks",         "budget",       "batch",  "arriving"};
constexpr std::string_view kReasons[] = {"stop", "length", "abort", "error"};

template <class Enum, std::size_t N>
std::string_view name(const std::string_view (&names)[N], Enum value) {
  const auto i = static_cast<std::size_t>(value);
  return i < N ? names[i] : "";
}

std::int64_t micros(TimeNs time) { return time / 1000; }
std::int64_t number_of(auto id) { return static_cast<std::int64_t>(id); }

std::vector<std::int32_t> ids(std::span<const BlockId> blocks) {
  std::vector<std::int32_t> out;
  out.reserve(blocks.size());
  for (const BlockId block : blocks) out.push_back(index(block));
  return out;
}

std::span<const BlockId> blocks_of(const EngineSnapshot& state, const SequenceSnapshot& sequence) {
  return std::span(state.blocks).subspan(sequence.first_block, sequence.num_blocks);
}

std::int64_t place(const RequestSnapshot& request) { return std::min(request.position, kTellPlace); }

bool same(const RequestSnapshot& a, const RequestSnapshot& b) {
  return a.state == b.state && a.code == b.code && place(a) == place(b) &&
         a.blocks_needed == b.blocks_needed && a.num_preemptions == b.num_preemptions &&
         a.num_cached_tokens == b.num_cached_tokens && a.first_scheduled == b.first_scheduled &&
         a.first_token == b.first_token;
}

void write(JsonWriter& json, const RequestSnapshot& request) {
  json.begin_array().integer(number_of(request.id)).string(name(kGroupStates, request.state));
  json.string(name(kCodes, request.code)).integer(place(request)).integer(request.blocks_needed);
  json.integer(request.num_preemptions).integer(request.num_cached_tokens).integer(request.num_prompt_tokens);
  json.integer(micros(request.arrival)).integer(micros(request.first_scheduled));
  json.integer(micros(request.first_token)).boolean(request.beam).end_array();
}

// `keep`: number of leading blocks that the reader already has; the rest follow.
void write(JsonWriter& json, const EngineSnapshot& state, RequestId owner, const SequenceSnapshot& sequence,
           std::size_t keep) {
  json.begin_array().integer(number_of(sequence.id)).integer(number_of(owner)).integer(sequence.index);
  json.string(name(kSequenceStates, sequence.state)).integer(sequence.num_tokens);
  json.integer(sequence.num_computed_tokens).integer(std::lround(sequence.cumulative_logprob * 1000));
  json.integer(sequence.first_virtual).integer(sequence.num_swapped).integer(static_cast<std::int64_t>(keep));
  json.integers(ids(blocks_of(state, sequence).subspan(keep))).end_array();
}

void write_prefixes(JsonWriter& json, const EngineSnapshot& state) {
  json.key("prefixes").begin_array();
  for (const PrefixSnapshot& prefix : state.prefixes)
    json.begin_array().string(to_valid_utf8(prefix.name)).integers(ids(prefix.blocks)).end_array();
  json.end_array();
}

void write_counts(JsonWriter& json, const EngineSnapshot& state) {
  json.key("step").integer(state.step).key("now").integer(micros(state.now));
  json.key("available")
      .integer(state.num_available_blocks)
      .key("swap_free")
      .integer(state.num_free_swap_blocks);
}

void write_steps(JsonWriter& json, const EngineSnapshot& state) {
  json.key("steps").begin_array();
  for (const StepSnapshot& step : state.steps) {
    json.begin_array().integer(step.number).integer(micros(step.started));
    for (const std::int64_t value :
         {(step.finished - step.started) / 1000, std::int64_t{step.prefill_tokens},
          std::int64_t{step.decode_tokens}, std::int64_t{step.draft_tokens}, std::int64_t{step.new_tokens},
          std::int64_t{step.num_sequences}, std::int64_t{step.num_preempted}, std::int64_t{step.num_copies},
          std::int64_t{step.num_swapped_out}, std::int64_t{step.num_swapped_in}, step.num_waiting,
          step.num_running, step.blocks_in_use})
      json.integer(value);
    json.end_array();
  }
  json.end_array().key("events").begin_array();
  const std::size_t count = std::min(state.events.size(), kMaxEvents);
  for (const EventSnapshot& event : std::span(state.events).last(count)) {
    json.begin_array().integer(event.step).string(name(kEventNames, event.event.kind));
    json.integer(number_of(event.event.sequence)).integer(event.event.block).integer(event.event.to);
    json.integer(event.event.count).end_array();
  }
  json.end_array().key("ended").begin_array();
  for (const EndedSnapshot& ended : state.ended) {
    json.begin_array().integer(number_of(ended.id)).string(name(kReasons, ended.reason));
    for (const TimeNs time : {ended.arrival, ended.first_scheduled, ended.first_token, ended.ended})
      json.integer(micros(time));
    json.integer(ended.num_prompt_tokens).integer(ended.num_cached_tokens).integer(ended.num_output_tokens);
    json.integer(ended.num_preemptions).end_array();
  }
  json.end_array().key("missed").integer(state.num_missed +
                                         static_cast<std::int64_t>(state.events.size() - count));
}

using Found = std::unordered_map<std::int64_t, const SequenceSnapshot*>;
Found by_id(const EngineSnapshot& state) {
  Found out;
  for (const SequenceSnapshot& sequence : state.sequences) out.emplace(number_of(sequence.id), &sequence);
  return out;
}

std::size_t common(std::span<const BlockId> a, std::span<const BlockId> b) {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

void write_requests(JsonWriter& json, const EngineSnapshot& before, const EngineSnapshot& after) {
  std::unordered_map<std::int64_t, const RequestSnapshot*> old;
  for (const RequestSnapshot& request : before.requests) old.emplace(number_of(request.id), &request);
  json.key("requests").begin_array();
  for (const RequestSnapshot& request : after.requests) {
    const auto it = old.find(number_of(request.id));
    if (it == old.end() || !same(*it->second, request)) write(json, request);
    if (it != old.end()) old.erase(it);
  }
  json.end_array().key("gone").begin_array();
  for (const RequestSnapshot& request : before.requests)
    if (old.contains(number_of(request.id))) json.integer(number_of(request.id));
  json.end_array();
}

void write_sequences(JsonWriter& json, const EngineSnapshot& before, const EngineSnapshot& after) {
  Found old = by_id(before);
  std::vector<const SequenceSnapshot*> advanced;
  json.key("sequences").begin_array();
  for (const RequestSnapshot& request : after.requests) {
    for (const SequenceSnapshot& now :
         std::span(after.sequences).subspan(request.first_sequence, request.num_sequences)) {
      const auto it = old.find(number_of(now.id));
      const SequenceSnapshot* was = it == old.end() ? nullptr : it->second;
      if (was != nullptr) old.erase(it);
      const auto blocks = blocks_of(after, now);
      const std::size_t keep = was == nullptr ? 0 : common(blocks_of(before, *was), blocks);
      const bool alike = was != nullptr && was->state == now.state && was->index == now.index &&
                         was->first_virtual == now.first_virtual && was->num_swapped == now.num_swapped &&
                         keep == blocks.size() && was->num_blocks == now.num_blocks;
      if (!alike)
        write(json, after, request.id, now, keep);
      else if (*was != now)
        advanced.push_back(&now);
    }
  }
  json.end_array().key("advance").begin_array();
  for (const SequenceSnapshot* now : advanced) {
    json.integer(number_of(now->id)).integer(now->num_tokens).integer(now->num_computed_tokens);
    json.integer(std::lround(now->cumulative_logprob * 1000));
  }
  json.end_array().key("sequences_gone").begin_array();
  for (const SequenceSnapshot& sequence : before.sequences)
    if (old.contains(number_of(sequence.id))) json.integer(number_of(sequence.id));
  json.end_array();
}

void write_cached(JsonWriter& json, const EngineSnapshot& before, const EngineSnapshot& after) {
  std::vector<char> cached(static_cast<std::size_t>(std::max(before.num_blocks, after.num_blocks)), 0);
  for (const BlockId block : before.cached) cached[static_cast<std::size_t>(index(block))] = 1;
  std::vector<std::int32_t> added;
  for (const BlockId block : after.cached) {
    char& mark = cached[static_cast<std::size_t>(index(block))];
    if (mark == 0) added.push_back(index(block));
    mark = 2;
  }
  std::vector<std::int32_t> lost;
  for (const BlockId block : before.cached)
    if (cached[static_cast<std::size_t>(index(block))] == 1) lost.push_back(index(block));
  json.key("cached").integers(added).key("uncached").integers(lost);
}

}  // namespace

std::string live_hello(const EngineSnapshot& state, const std::string& boot) {
  std::string out;
  JsonWriter json(out);
  json.begin_object().key("type").string("hello").key("version").integer(1).key("boot").string(boot);
  json.key("manager").string(state.manager).key("block_size").integer(state.block_size);
  json.key("blocks").integer(state.num_blocks).key("swap_blocks").integer(state.num_swap_blocks);
  json.key("max_num_seqs").integer(state.max_num_seqs);
  json.key("max_num_batched_tokens").integer(state.max_num_batched_tokens);
  json.key("max_model_len").integer(state.max_model_len).key("groups").begin_array();
  for (const KvGroup& group : state.groups) {
    json.begin_object().key("kind").string(kv_kind_name(group.kind));
    json.key("window").integer(group.window).key("tokens_per_row").integer(group.tokens_per_row);
    json.key("pages_per_row").integer(group.pages_per_row);
    json.key("state_bytes").integer(group.state_bytes).end_object();
  }
  json.end_array().end_object();
  return out;
}

std::string live_snapshot(const EngineSnapshot& state, std::int64_t number) {
  std::string out;
  JsonWriter json(out);
  json.begin_object().key("type").string("snap").key("n").integer(number);
  write_counts(json, state);
  json.key("requests").begin_array();
  for (const RequestSnapshot& request : state.requests) write(json, request);
  json.end_array().key("sequences").begin_array();
  for (const RequestSnapshot& request : state.requests) {
    for (const SequenceSnapshot& sequence :
         std::span(state.sequences).subspan(request.first_sequence, request.num_sequences))
      write(json, state, request.id, sequence, 0);
  }
  json.end_array().key("cached").integers(ids(state.cached));
  write_prefixes(json, state);
  write_steps(json, state);
  json.end_object();
  return out;
}

std::string live_delta(const EngineSnapshot& before, const EngineSnapshot& after, std::int64_t number) {
  std::string out;
  JsonWriter json(out);
  json.begin_object().key("type").string("delta").key("n").integer(number);
  write_counts(json, after);
  write_requests(json, before, after);
  write_sequences(json, before, after);
  write_cached(json, before, after);
  if (before.prefixes != after.prefixes) write_prefixes(json, after);
  write_steps(json, after);
  json.end_object();
  return out;
}

bool live_unchanged(const EngineSnapshot& before, const EngineSnapshot& after) {
  return before.step == after.step && before.requests == after.requests &&
         before.sequences == after.sequences && before.blocks == after.blocks &&
         before.cached == after.cached && before.prefixes == after.prefixes && after.ended.empty();
}

}  // namespace pagoda
