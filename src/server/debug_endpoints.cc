#include "server/debug_endpoints.h"

#include <algorithm>
#include <atomic>
#include <map>

#include "api/json.h"
#include "base/process_memory.h"
#include "base/strings.h"
#include "server/server_context.h"

namespace pagoda {
namespace {

std::string_view name(GroupState state) {
  switch (state) {
    case GroupState::waiting:
      return "waiting";
    case GroupState::arriving:
      return "arriving";
    case GroupState::running:
      return "running";
    case GroupState::swapped:
      return "swapped";
    case GroupState::finished:
      return "finished";
  }
  return "";
}

std::string_view name(SequenceState state) {
  switch (state) {
    case SequenceState::parked:
      return "no_kv";
    case SequenceState::arriving:
      return "arriving";
    case SequenceState::resident:
      return "resident";
    case SequenceState::swapped:
      return "swapped";
    case SequenceState::finished:
      return "finished";
  }
  return "";
}

// "7/0": choice 0 of request 7.
std::string holder(const RequestSnapshot& request, const SequenceSnapshot& sequence) {
  return concat(static_cast<std::uint64_t>(request.id), "/", sequence.index);
}

using Sharers = std::map<BlockId, std::vector<std::string>>;

Sharers sharers_of(const EngineSnapshot& snapshot) {
  Sharers out;
  for (const RequestSnapshot& request : snapshot.requests) {
    for (const SequenceSnapshot& sequence : snapshot.sequences_of(request)) {
      const auto blocks = snapshot.blocks_of(sequence);
      const auto ref_counts = snapshot.ref_counts_of(sequence);
      for (std::size_t i = 0; i < blocks.size(); ++i) {
        if (ref_counts[i] > 1) out[blocks[i]].push_back(holder(request, sequence));
      }
    }
  }
  return out;
}

void field(JsonWriter& json, std::string_view key, std::int64_t value) { json.key(key).integer(value); }

void write(JsonWriter& json, const EngineSnapshot& snapshot, const RequestSnapshot& request,
           const SequenceSnapshot& sequence, const Sharers& sharers) {
  json.begin_object();
  field(json, "index", sequence.index);
  json.key("state").string(name(sequence.state));
  field(json, "num_tokens", sequence.num_tokens);
  field(json, "num_computed_tokens", sequence.num_computed_tokens);
  std::vector<std::int32_t> blocks;
  std::vector<std::string> shared_with;
  for (const BlockId block : snapshot.blocks_of(sequence)) {
    blocks.push_back(index(block));
    const auto it = sharers.find(block);
    if (it == sharers.end()) continue;
    for (const std::string& other : it->second) {
      if (other != holder(request, sequence)) shared_with.push_back(other);
    }
  }
  std::ranges::sort(shared_with);
  shared_with.erase(std::ranges::unique(shared_with).begin(), shared_with.end());
  json.key("blocks").integers(blocks);
  json.key("ref_counts").integers(snapshot.ref_counts_of(sequence));
  json.key("shares_blocks_with").begin_array();
  for (const std::string& other : shared_with) json.string(other);
  json.end_array();
  field(json, "num_swapped_blocks", sequence.num_swapped);
  json.end_object();
}

void write(JsonWriter& json, const EngineSnapshot& snapshot, const RequestSnapshot& request,
           std::string_view id, const Sharers& sharers) {
  json.begin_object();
  field(json, "request", static_cast<std::int64_t>(request.id));
  json.key("id").string(id);
  json.key("state").string(name(request.state));
  field(json, "position", request.position);
  field(json, "blocks_needed", request.blocks_needed);
  field(json, "blocks_free", snapshot.num_available_blocks);
  json.key("reason").string(request.reason);
  if (!request.adapter.empty()) json.key("adapter").string(to_valid_utf8(request.adapter));
  field(json, "num_preemptions", request.num_preemptions);
  field(json, "num_cached_tokens", request.num_cached_tokens);
  field(json, "num_prompt_tokens", request.num_prompt_tokens);
  field(json, "num_output_tokens", request.num_output_tokens);
  json.key("sequences").begin_array();
  for (const SequenceSnapshot& sequence : snapshot.sequences_of(request))
    write(json, snapshot, request, sequence, sharers);
  json.end_array();
  json.end_object();
}

void write(JsonWriter& json, const KvUsage& usage) {
  json.key("slots").begin_object();
  field(json, "total", usage.total_slots);
  field(json, "token", usage.token_slots);
  field(json, "reserved", usage.reserved_slots);
  field(json, "internal_fragmentation", usage.internal_slots);
  field(json, "external_fragmentation", usage.external_slots);
  field(json, "cached", usage.cached_slots);
  json.end_object();
  field(json, "blocks_in_use", usage.blocks_in_use);
  field(json, "blocks_without_sharing", usage.blocks_without_sharing);
}

void write(JsonWriter& json, const EngineSnapshot& snapshot, const ServerContext& server) {
  json.begin_object();
  field(json, "block_size", snapshot.block_size);
  field(json, "num_blocks", snapshot.num_blocks);
  field(json, "num_free_blocks", snapshot.num_free_blocks);
  field(json, "num_available_blocks", snapshot.num_available_blocks);
  json.key("groups").begin_array();
  for (const KvGroup& group : snapshot.groups) {
    json.begin_object();
    json.key("kind").string(kv_kind_name(group.kind));
    field(json, "window", group.window);
    field(json, "pages_per_row", group.pages_per_row);
    field(json, "state_bytes", group.state_bytes);
    json.end_object();
  }
  json.end_array();
  field(json, "num_swap_blocks", snapshot.num_swap_blocks);
  field(json, "num_free_swap_blocks", snapshot.num_free_swap_blocks);
  write(json, snapshot.usage);
  const EngineTotals& totals = snapshot.totals;
  json.key("totals").begin_object();
  field(json, "steps", totals.steps);
  write(json, totals.usage);
  field(json, "blocks_copied", totals.blocks_copied);
  field(json, "blocks_swapped_out", totals.blocks_swapped_out);
  field(json, "blocks_swapped_in", totals.blocks_swapped_in);
  field(json, "preemptions", totals.preemptions);
  field(json, "preemptions_by_swap", totals.preemptions_by_swap);
  field(json, "batched_tokens", totals.batched_tokens);
  field(json, "padded_tokens", totals.padded_tokens);
  field(json, "running_requests", totals.running_requests);
  json.end_object();
  const Sharers sharers = sharers_of(snapshot);
  json.key("requests").begin_array();
  for (const RequestSnapshot& request : snapshot.requests)
    write(json, snapshot, request, server.live_calls.name_of(static_cast<std::uint64_t>(request.id)),
          sharers);
  json.end_array();
  json.end_object();
}

using Snapshots = std::vector<SnapshotDesk::Snapshot>;  // by engine

// The state of a single engine, or a list of the states of several engines.
HttpResponse kv_response(const Snapshots& engines, const ServerContext& server) {
  HttpResponse response;
  JsonWriter json(response.body);
  if (engines.size() == 1) {
    write(json, **engines.front(), server);
    return response;
  }
  json.begin_object().key("engines").begin_array();
  for (const SnapshotDesk::Snapshot& engine : engines) {
    if (engine)
      write(json, **engine, server);
    else
      json.begin_object().key("error").string(engine.error().message()).end_object();
  }
  json.end_array().end_object();
  return response;
}

HttpResponse requests_response(const Snapshots& engines, const std::string& wanted,
                               const ServerContext& server) {
  HttpResponse response;
  JsonWriter json(response.body);
  bool found = false;
  json.begin_object().key("requests").begin_array();  // a call with several prompts is several requests
  for (const SnapshotDesk::Snapshot& engine : engines) {
    if (!engine) continue;
    const EngineSnapshot& snapshot = **engine;
    const Sharers sharers = sharers_of(snapshot);
    for (const RequestSnapshot& request : snapshot.requests) {
      const auto number = static_cast<std::uint64_t>(request.id);
      const std::string id = server.live_calls.name_of(number);
      if (wanted != id && wanted != concat(number)) continue;
      write(json, snapshot, request, id, sharers);
      found = true;
    }
  }
  json.end_array().end_object();
  if (found) return response;
  return error_response(
      {.status = 404, .message = "No request with this id is being served.", .code = "not_found"});
}

// Waits for the snapshots of all engines.
class SnapshotWait final : public EngineWait {
 public:
  SnapshotWait(bool all, std::string wanted, std::size_t num_engines)
      : all_(all), wanted_(std::move(wanted)), left_(num_engines), snapshots_(num_engines, kNone) {}

  // Returns true if it was the last snapshot.
  bool set(std::size_t engine, SnapshotDesk::Snapshot snapshot) {
    snapshots_[engine] = std::move(snapshot);
    return left_.fetch_sub(1, std::memory_order_acq_rel) == 1;
  }
  std::chrono::milliseconds limit() const override { return std::chrono::seconds(5); }
  bool ready() const override { return left_.load(std::memory_order_acquire) == 0; }
  HttpResponse answer(const ServerContext& server) override {
    if (std::ranges::none_of(snapshots_, [](const auto& snapshot) { return snapshot.has_value(); }))
      return error_response(snapshots_.front().error());
    return all_ ? kv_response(snapshots_, server) : requests_response(snapshots_, wanted_, server);
  }

 private:
  static inline const Status kNone = unavailable("The engine has not answered.");

  const bool all_;
  const std::string wanted_;
  std::atomic<std::size_t> left_;
  Snapshots snapshots_;
};

std::shared_ptr<EngineWait> ask(bool all, const ApiCall& call, ServerContext& server,
                                std::function<void()> wake) {
  const std::size_t num_engines = server.snapshots.size();
  auto wait = std::make_shared<SnapshotWait>(all, call.parameter, num_engines);
  for (std::size_t i = 0; i < num_engines; ++i) {
    server.snapshots[i].ask([wait, i, wake](SnapshotDesk::Snapshot snapshot) {
      if (wait->set(i, std::move(snapshot))) wake();
    });
  }
  return wait;
}

Result<std::shared_ptr<EngineWait>> debug_kv(const ApiCall& call, ServerContext& server,
                                             std::function<void()> wake) {
  return ask(/*all=*/true, call, server, std::move(wake));
}
Result<std::shared_ptr<EngineWait>> debug_request(const ApiCall& call, ServerContext& server,
                                                  std::function<void()> wake) {
  return ask(/*all=*/false, call, server, std::move(wake));
}

// Guaranteed and used memory by account. Accounts reserved at startup are fully used.
HttpResponse debug_memory(const ApiCall&, ServerContext& server) {
  const MemoryBudget::Snapshot ledger = server.memory.ledger().snapshot();
  HttpResponse response;
  JsonWriter json(response.body);
  json.begin_object();
  field(json, "limit", server.memory.ledger().limit());
  field(json, "used", ledger.used);
  field(json, "left", ledger.left);
  field(json, "resident", process_memory().resident_bytes);
  json.key("accounts").begin_array();
  for (const MemoryBudget::Account& account : ledger.accounts) {
    json.begin_object();
    json.key("name").string(account.name);
    field(json, "promised", account.promised);
    field(json, "used", account.used);
    field(json, "limit", account.limit);
    json.end_object();
  }
  json.end_array().end_object();
  return response;
}

constexpr Route kDebugRoutes[] = {
    {{.method = "GET", .path = "/debug/memory", .role = Role::admin, .cost = Cost::inlined}, debug_memory},
    {{.method = "GET", .path = "/debug/kv", .role = Role::admin}, debug_kv},
    {{.method = "GET", .path = "/debug/requests/{id}", .role = Role::admin}, debug_request},
};

}  // namespace

std::span<const Route> debug_routes() { return kDebugRoutes; }

}  // namespace pagoda
