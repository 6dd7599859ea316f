// The functions of pagoda.h that query the engine and its tokenizer, and control the engine as a whole.
#include <boost/json.hpp>
#include <future>
#include <string_view>
#include <vector>

#include "api/api_context.h"
#include "api/json.h"
#include "api/openai/text_endpoints.h"
#include "base/metric_label.h"
#include "cli/assembly/memory_modes.h"
#include "library/handles.h"
#include "server/server.h"

using namespace pagoda;  // NOLINT: the room's own names; the C ones all begin with pagoda_

namespace {

// The pad token of tokenizer_config.json; -1 if none.
TokenId pad_token(const ApiContext& api, const Tokenizer& tokenizer) {
  const Result<boost::json::value> info = parse_json(api.tokenizer_info);
  if (!info || !info->is_object()) return -1;
  const boost::json::value* named = info->as_object().if_contains("pad_token");
  if (named != nullptr && named->is_object()) named = named->as_object().if_contains("content");
  if (named == nullptr || !named->is_string()) return -1;
  return tokenizer.find(named->as_string()).value_or(-1);
}

// Waits for a control operation that the engine thread performs between two steps.
template <class Ask>
pagoda_status controlled(const Ask& ask) {
  const auto outcome = std::make_shared<std::promise<Status>>();
  auto ready = outcome->get_future();
  ask([outcome](Status status) { outcome->set_value(std::move(status)); });
  return record_error(ready.get());
}

using Held = Result<std::shared_ptr<const EngineSnapshot>>;

Held held_between_steps(EngineClient& engine) {
  const auto outcome = std::make_shared<std::promise<Held>>();
  auto ready = outcome->get_future();
  engine.snapshot([outcome](Held held) { outcome->set_value(std::move(held)); });
  return ready.get();
}

std::int64_t count(const std::vector<RequestSnapshot>& requests, GroupState state) {
  return std::ranges::count(requests, state, &RequestSnapshot::state);
}

pagoda_stats stats_of(const EngineSnapshot& held) {
  return {
      .block_size = held.block_size,
      .num_blocks = held.num_blocks,
      .num_free_blocks = held.num_free_blocks,
      .num_running = count(held.requests, GroupState::running),
      .num_waiting = count(held.requests, GroupState::waiting) + count(held.requests, GroupState::arriving),
      .num_swapped = count(held.requests, GroupState::swapped),
      .total_slots = held.usage.total_slots,
      .token_slots = held.usage.token_slots,
      .reserved_slots = held.usage.reserved_slots,
      .internal_slots = held.usage.internal_slots,
      .external_slots = held.usage.external_slots,
      .cached_slots = held.usage.cached_slots,
      .blocks_in_use = held.usage.blocks_in_use,
      .blocks_without_sharing = held.usage.blocks_without_sharing,
      .num_steps = held.totals.steps,
      .num_batched_tokens = held.totals.batched_tokens,
      .num_preemptions = held.totals.preemptions,
      .num_blocks_copied = held.totals.blocks_copied,
      .num_blocks_swapped_out = held.totals.blocks_swapped_out,
      .num_blocks_swapped_in = held.totals.blocks_swapped_in};
}

// Adds up the statistics of several identical engines.
void add_stats(pagoda_stats& sum, const pagoda_stats& engine) {
  sum.block_size = engine.block_size;
  sum.num_blocks += engine.num_blocks;
  sum.num_free_blocks += engine.num_free_blocks;
  sum.num_running += engine.num_running;
  sum.num_waiting += engine.num_waiting;
  sum.num_swapped += engine.num_swapped;
  sum.total_slots += engine.total_slots;
  sum.token_slots += engine.token_slots;
  sum.reserved_slots += engine.reserved_slots;
  sum.internal_slots += engine.internal_slots;
  sum.external_slots += engine.external_slots;
  sum.cached_slots += engine.cached_slots;
  sum.blocks_in_use += engine.blocks_in_use;
  sum.blocks_without_sharing += engine.blocks_without_sharing;
  sum.num_steps += engine.num_steps;
  sum.num_batched_tokens += engine.num_batched_tokens;
  sum.num_preemptions += engine.num_preemptions;
  sum.num_blocks_copied += engine.num_blocks_copied;
  sum.num_blocks_swapped_out += engine.num_blocks_swapped_out;
  sum.num_blocks_swapped_in += engine.num_blocks_swapped_in;
}

}  // namespace

pagoda_status pagoda_tokenize(pagoda_engine* engine, const char* text, size_t text_length,
                              int32_t add_special_tokens, int32_t** ids, size_t* num_ids) {
  return guarded([&] {
    if (engine == nullptr || text == nullptr || ids == nullptr || num_ids == nullptr)
      return missing("engine, text, ids or num_ids");
    const Result<std::vector<TokenId>> encoded = engine->engine->assembled->tokenizer()->encode(
        {text, text_length}, {.add_special_tokens = add_special_tokens != 0});
    if (!encoded) return record_error(encoded.error());
    *ids = hand_over(encoded->data(), encoded->size());
    *num_ids = encoded->size();
    return PAGODA_OK;
  });
}

pagoda_status pagoda_detokenize(pagoda_engine* engine, const int32_t* ids, size_t num_ids,
                                int32_t skip_special_tokens, char** text, size_t* text_length) {
  return guarded([&] {
    if (engine == nullptr || (ids == nullptr && num_ids > 0) || text == nullptr || text_length == nullptr)
      return missing("engine, ids, text or text_length");
    hand_over(to_valid_utf8(
                  engine->engine->assembled->tokenizer()->decode({ids, num_ids}, skip_special_tokens != 0)),
              text, text_length);
    return PAGODA_OK;
  });
}

pagoda_status pagoda_token_text(pagoda_engine* engine, int32_t id, char** text, size_t* text_length) {
  return guarded([&] {
    if (engine == nullptr || text == nullptr || text_length == nullptr)
      return missing("engine, text or text_length");
    const Tokenizer& tokenizer = *engine->engine->assembled->tokenizer();
    if (id < 0 || id >= tokenizer.vocab_size())
      return fail(PAGODA_NOT_FOUND, concat("there is no token ", id));
    hand_over(to_valid_utf8(tokenizer.token_string(id)), text, text_length);
    return PAGODA_OK;
  });
}

pagoda_status pagoda_token_id(pagoda_engine* engine, const char* text, size_t text_length, int32_t* id) {
  return guarded([&] {
    if (engine == nullptr || text == nullptr || id == nullptr) return missing("engine, text or id");
    *id = engine->engine->assembled->tokenizer()->find({text, text_length}).value_or(-1);
    return PAGODA_OK;
  });
}

pagoda_status pagoda_apply_chat_template(pagoda_engine* engine, const char* body, char** text,
                                         size_t* text_length) {
  return guarded([&] {
    if (engine == nullptr || body == nullptr || text == nullptr || text_length == nullptr)
      return missing("engine, body, text or text_length");
    const Result<std::string> answer = apply_template_body(body, engine->engine->assembled->api());
    if (!answer) return record_error(answer.error());
    const boost::json::value value = boost::json::parse(*answer);
    const boost::json::string& prompt = value.at("prompt").as_string();
    hand_over(std::string(prompt.data(), prompt.size()), text, text_length);
    return PAGODA_OK;
  });
}

pagoda_status pagoda_get_facts(pagoda_engine* engine, pagoda_facts* facts, size_t size) {
  return guarded([&] {
    if (engine == nullptr || facts == nullptr) return missing("engine or facts");
    const LibraryEngine& own = *engine->engine;
    const ApiContext& api = own.assembled->api();
    const MemoryTable& memory = own.assembled->memory();
    const Tokenizer& tokenizer = *own.assembled->tokenizer();
    return copy_out(pagoda_facts{.model = own.assembled->model_name().c_str(),
                                 .architecture = api.facts.architecture.c_str(),
                                 .scheduler = own.flags.scheduler.c_str(),
                                 .scheduling_policy = pagoda::facts(scheduling_policy(own.flags)).name.data(),
                                 .kv_manager = is_baseline(own.flags)  ? "reserved"
                                               : is_virtual(own.flags) ? "virtual"
                                                                       : "paged",
                                 .max_model_len = api.max_model_len,
                                 .max_num_seqs = api.max_num_seqs,
                                 .vocab_size = api.vocab_size,
                                 .kv_cache_bytes = memory.kv_bytes,
                                 .kv_cache_tokens = memory.kv_tokens,
                                 .weight_bytes = memory.weight_bytes + memory.embedding_bytes,
                                 .num_threads = own.assembled->num_threads(),
                                 .bos_token_id = tokenizer.bos(),
                                 .eos_token_id = tokenizer.eos(),
                                 .pad_token_id = pad_token(api, tokenizer)},
                    facts, size);
  });
}

pagoda_status pagoda_get_stats(pagoda_engine* engine, pagoda_stats* stats, size_t size) {
  return guarded([&] {
    if (engine == nullptr || stats == nullptr) return missing("engine or stats");
    EngineClient& client = engine->engine->assembled->client();
    pagoda_stats sum{};
    for (std::size_t i = 0; i < client.num_engines(); ++i) {
      const Held held = held_between_steps(client.engine(i));
      if (!held) return record_error(held.error());
      add_stats(sum, stats_of(**held));
    }
    return copy_out(sum, stats, size);
  });
}

pagoda_status pagoda_sleep(pagoda_engine* engine, int32_t level, const char* mode) {
  return guarded([&] {
    if (engine == nullptr) return missing("engine");
    if (level < 0 || level > 2) return fail(PAGODA_INVALID, "level is 0, 1 or 2");
    const std::string_view running = mode == nullptr ? "abort" : mode;
    if (running != "abort" && running != "wait" && running != "keep")
      return fail(PAGODA_INVALID, "mode is abort, wait or keep");
    using Running = SleepOrder::Running;
    const SleepOrder order{.level = level,
                           .running = running == "abort"  ? Running::abort
                                      : running == "wait" ? Running::wait
                                                          : Running::keep};
    EngineClient& client = engine->engine->assembled->client();
    return controlled([&](auto done) { client.sleep(order, std::move(done)); });
  });
}

pagoda_status pagoda_wake_up(pagoda_engine* engine, const char* tags) {
  return guarded([&] {
    if (engine == nullptr) return missing("engine");
    WakeOrder order;
    if (tags != nullptr) order = {.weights = false, .kv_cache = false, .scheduling = false};
    for (std::string_view rest = tags == nullptr ? "" : tags; !rest.empty();) {
      const std::string_view tag = rest.substr(0, rest.find(','));
      bool* part = tag == "weights"      ? &order.weights
                   : tag == "kv_cache"   ? &order.kv_cache
                   : tag == "scheduling" ? &order.scheduling
                                         : nullptr;
      if (part == nullptr) return fail(PAGODA_INVALID, "tags are weights, kv_cache and scheduling");
      *part = true;
      rest.remove_prefix(std::min(rest.size(), tag.size() + 1));
    }
    EngineClient& client = engine->engine->assembled->client();
    return controlled([&](auto done) { client.wake_up(order, std::move(done)); });
  });
}

pagoda_status pagoda_is_sleeping(pagoda_engine* engine, int32_t* is_sleeping) {
  return guarded([&] {
    if (engine == nullptr || is_sleeping == nullptr) return missing("engine or is_sleeping");
    *is_sleeping = engine->engine->assembled->client().is_sleeping() ? 1 : 0;
    return PAGODA_OK;
  });
}

pagoda_status pagoda_reset_prefix_cache(pagoda_engine* engine) {
  return guarded([&] {
    if (engine == nullptr) return missing("engine");
    EngineClient& client = engine->engine->assembled->client();
    return controlled([&](auto done) { client.reset_prefix_cache(std::move(done)); });
  });
}

pagoda_status pagoda_load_adapter(pagoda_engine* engine, const char* name, const char* path) {
  return guarded([&] {
    if (engine == nullptr || name == nullptr || path == nullptr) return missing("engine, name or path");
    AdapterCatalog* const adapters = engine->engine->assembled->api().adapters;
    if (adapters == nullptr)
      return fail(PAGODA_INVALID, "lora_request: the engine was created without enable_lora");
    const auto loaded = adapters->load(name, path, /*replace=*/true);
    return loaded ? PAGODA_OK : record_error(loaded.error());
  });
}

pagoda_status pagoda_get_metrics(pagoda_engine* engine, char** text, size_t* text_length) {
  return guarded([&] {
    if (engine == nullptr || text == nullptr || text_length == nullptr)
      return missing("engine, text or text_length");
    AssembledEngine& own = *engine->engine->assembled;
    // Outputs are available before their step has ended. Waiting for its end makes the gauges include that
    // step.
    EngineClient& client = own.client();
    for (std::size_t i = 0; i < client.num_engines(); ++i)
      static_cast<void>(held_between_steps(client.engine(i)));
    const std::string labels = concat("model_name=\"", label_value(own.model_name()), "\"");
    hand_over(own.metrics().expose(ServerConfig().metrics_prefix, labels), text, text_length);
    return PAGODA_OK;
  });
}
