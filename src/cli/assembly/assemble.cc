#include "cli/assembly/assemble.h"

#include <chrono>

#include "api/api_context.h"
#include "base/assign_or_return.h"
#include "base/log.h"
#include "base/strings.h"
#include "cli/assembly/adapter_catalog.h"
#include "cli/assembly/answer_ends.h"
#include "cli/assembly/answer_format_names.h"
#include "cli/assembly/connect_api.h"
#include "cli/assembly/data_parallel.h"
#include "cli/assembly/devices.h"
#include "cli/assembly/draft_model.h"
#include "cli/assembly/engine_plan.h"
#include "cli/assembly/hub_paths.h"
#include "cli/assembly/kv_tiers_of_runners.h"
#include "cli/assembly/load_chat_template.h"
#include "cli/assembly/load_tokenizer.h"
#include "cli/assembly/loaded_model.h"
#include "cli/assembly/memory_modes.h"
#include "cli/assembly/memory_plan.h"
#include "cli/assembly/model_overrides.h"
#include "cli/assembly/poison_file.h"
#include "cli/assembly/pooling.h"
#include "cli/assembly/ranks.h"
#include "cli/assembly/runner_options.h"
#include "cli/assembly/sampling_defaults.h"
#include "cli/assembly/weight_caching.h"
#include "cli/serve/register_prefixes.h"
#include "constraint/grammar_service.h"
#include "engine/adapter_metrics.h"
#include "engine/cache_events.h"
#include "engine/engine_group.h"
#include "engine/engine_thread.h"
#include "kv_events/event_publisher.h"
#include "loader/mapped_file.h"
#include "models/read_config.h"
#include "sim/recorder.h"

namespace pagoda {

namespace {

// An engine and its observers.
struct Replica {
  std::unique_ptr<Recorder> recorder;           // for --record
  std::unique_ptr<KvEventPublisher> kv_events;  // null: no events are published
  std::unique_ptr<CacheEvents> cache_events;    // connects kv_events to the engine
  std::unique_ptr<AdapterMetrics> adapters;     // null: requests cannot choose adapters
  std::unique_ptr<WeightWritingObserver> first_answer;
  std::unique_ptr<EngineCore> core;      // until the engine takes it
  std::unique_ptr<EngineThread> engine;  // last: its thread uses the members above
};

RunHeader run_header(const EngineFlags& flags, const EnginePlan& plan) {
  const std::optional<VirtualMemory>& memory = plan.virtual_memory;
  EngineConfig engine = plan.engine;
  // The drafts of a draft model are recorded, so a replay can use any proposer and replace its drafts.
  if (drafts_by_model(flags))
    engine.speculative = {.num_speculative_tokens = engine.speculative->num_speculative_tokens,
                          .prompt_lookup_max = 1,
                          .prompt_lookup_min = 1};
  return {.modes = {.scheduler = flags.scheduler,
                    .kv_manager = flags.kv_manager,
                    .reserve = flags.reserve,
                    .slots = memory ? std::optional(memory->slots) : std::nullopt,
                    .num_created = memory ? memory->num_created : 0},
          .engine = std::move(engine),
          .num_blocks = plan.kv.num_blocks,
          .num_swap_blocks = plan.num_swap_blocks};
}

}  // namespace

struct AssembledEngine::Parts {
  // Opens the model, its tokenizer and templates, and loads its weights. Writes the ranks started by a
  // launcher into `flags`.
  Result<LoadedModel> load(EngineFlags& flags);
  // Allocates the KV caches, and creates manager, scheduler and engine core for each engine.
  Status build(const EngineFlags& flags, const EnginePlan& plan, LoadedModel& model);
  Status build_core(const EngineFlags& flags, EnginePlan plan, std::int32_t number, LoadedRunner& runner);
  // Connects observers, protocols and grammars.
  Status connect_observers(const EngineFlags& flags, const EnginePlan& plan, StepObserver* observer,
                           std::size_t number);
  Status connect(const EngineFlags& flags, const EnginePlan& plan, const LoadedModel& model, Report report);
  void start(EngineConfig config);
  Status load_tokenizer_of(const EngineFlags& flags, const ModelSource& source);
  // Call before the KV cache is sized by the remaining memory.
  Status load_adapters(const EngineFlags& flags, const ModelSource& source);

  SteadyClock clock;
  MetricsRegistry metrics;
  std::unique_ptr<Tokenizer> tokenizer;
  ChatTemplates chat_templates;
  std::unique_ptr<GrammarService> grammars;  // null: this build has no grammars
  std::unique_ptr<MemoryBudget> ledger;      // outlives the adapters, which hold reservations in it
  std::unique_ptr<LoadedAdapters> adapters;  // null: requests cannot choose adapters
  ApiContext api;
  MemoryTable memory;
  MemoryReservation grammar_memory;     // reserved for the grammar service
  std::vector<std::string> tier_media;  // names of each engine's tiers in KV events
  int num_threads = 0;
  std::int32_t vector_size = 0;
  std::string computes_on;
  std::unique_ptr<PoisonRecord> poison;  // null: no record is kept
  std::shared_ptr<const WeightCaching> weight_caching;
  const DistributedModelRunner* group = nullptr;  // owned by the engine; null: a single rank
  std::unique_ptr<Communicator> ranks;            // null: a single process
  std::vector<RankPlace> places;                  // by engine
  // One per engine until its proposer is created; empty without a draft model.
  std::vector<DraftModel> drafts;
  std::vector<Replica> replicas;         // their threads use the members above
  std::unique_ptr<EngineGroup> engines;  // null: a single engine
};

AssembledEngine::AssembledEngine() : parts_(std::make_unique<Parts>()) {}
AssembledEngine::~AssembledEngine() { stop(); }  // all engines stop before any is destroyed

Status AssembledEngine::Parts::load_tokenizer_of(const EngineFlags& flags, const ModelSource& source) {
  auto loaded = flags.tokenizer.empty() ? load_tokenizer(source) : load_tokenizer(flags.tokenizer);
  if (loaded)
    tokenizer = std::move(*loaded);
  else if (!flags.tokenizer.empty())
    return loaded.error().annotate("--tokenizer");
  else if (loaded.error().code() != StatusCode::not_found)
    return loaded.error();
  PAGODA_ASSIGN_OR_RETURN(chat_templates, load_chat_templates(flags.chat_template, source));
  return ok_status();
}

Result<LoadedModel> AssembledEngine::Parts::load(EngineFlags& flags) {
  PAGODA_ASSIGN_OR_RETURN(ranks, join_ranks(flags));
  PAGODA_ASSIGN_OR_RETURN(auto opened, open_model(flags));
  PAGODA_ASSIGN_OR_RETURN(auto info, read_model_config(*opened));
  LoadedModel model{.source = std::move(opened), .info = std::move(info), .options = {}, .runners = {}};
  PAGODA_RETURN_IF_ERROR(load_tokenizer_of(flags, *model.source));
  PAGODA_ASSIGN_OR_RETURN(auto options, runner_options(flags, model.info));
  model.options = std::move(options);
  PAGODA_ASSIGN_OR_RETURN(model.options.pooling,
                          pooling_model(flags, *model.source, model.info, tokenizer.get()));
  if (flags.lora.enable) {
    if (model.options.pooling)
      return invalid_argument("--enable-lora: the model makes vectors; --lora merges an adapter at start");
    model.options.adapters = std::make_shared<AdapterSet>(
        AdapterLimits{.max_adapters = flags.lora.max_loaded(), .max_rank = flags.lora.max_rank});
    adapters = std::make_unique<LoadedAdapters>(model.options.adapters, hub_paths_from_environment());
  }
  weight_caching = model.options.weight_caching;
  count_weight_writing(*weight_caching->writing, metrics);
  PAGODA_ASSIGN_OR_RETURN(places, engine_places(flags, kNumaFolder));
  for (std::int32_t i = 0; i < flags.data_parallel_size; ++i) {
    const RankPlace& place = places[static_cast<std::size_t>(i)];
    const ThreadPlace here(place.cpus, place.node);
    log_place(i, place);
    PAGODA_ASSIGN_OR_RETURN(auto runner, LoadedRunner::create(model.source, model.options,
                                                              flags_of_engine(flags, i), ranks.get()));
    model.runners.push_back(std::move(runner));
    if (!drafts_by_model(flags)) continue;
    PAGODA_ASSIGN_OR_RETURN(auto draft, DraftModel::load(flags, model, tokenizer.get()));
    drafts.push_back(std::move(draft));
  }
  return model;
}

namespace {

// The manager adds pages in ascending order of their numbers.
std::function<bool(std::int64_t)> page_adder(std::function<Status(std::int64_t, std::int64_t)> create,
                                             std::int64_t first, const std::unique_ptr<Recorder>& recorder) {
  return [&recorder, create = std::move(create), next = first](std::int64_t count) mutable {
    const Status status = create(next, count);
    if (recorder) recorder->on_grant(status.ok());
    if (!status.ok()) {
      log_warning("kv", status.message());
      return false;
    }
    next += count;
    return true;
  };
}

Status allocate(const EnginePlan& plan, LoadedRunner& runner) {
  if (plan.virtual_memory)
    return runner.allocate_virtual_kv(plan.virtual_memory->layout, plan.virtual_memory->shape,
                                      plan.kv.num_blocks, plan.num_swap_blocks);
  if (plan.groups.groups.empty()) return ok_status();
  return runner.allocate_kv_cache(plan.kv.num_blocks, plan.num_swap_blocks);
}

}  // namespace

Status AssembledEngine::Parts::build_core(const EngineFlags& flags, EnginePlan plan, std::int32_t number,
                                          LoadedRunner& runner) {
  Replica& replica = replicas[static_cast<std::size_t>(number)];
  plan.engine.engine = number;
  LoadedRunner::Taken taken = runner.take(plan.engine.async_scheduling);
  std::function<bool(std::int64_t)> may_create;
  if (plan.virtual_memory)
    may_create =
        page_adder(std::move(taken.create_pages), plan.virtual_memory->num_created, replica.recorder);
  auto parts =
      make_memory_parts(flags, plan.engine, plan.kv.num_blocks, plan.num_swap_blocks,
                        plan.virtual_memory ? &*plan.virtual_memory : nullptr, std::move(may_create));
  if (!parts) return parts.error();
  parts->runner = std::move(taken.runner);
  if (!drafts.empty()) {
    PAGODA_ASSIGN_OR_RETURN(parts->proposer,
                            std::move(drafts[static_cast<std::size_t>(number)]).make_proposer(flags, plan));
  }
  parts->poison = poison.get();
  replica.core = std::make_unique<EngineCore>(plan.engine, *std::move(parts), clock,
                                              metrics.labelled(concat("engine=\"", number, "\"")));
  return ok_status();
}

Status AssembledEngine::Parts::build(const EngineFlags& flags, const EnginePlan& plan, LoadedModel& model) {
  for (LoadedRunner& runner : model.runners) PAGODA_RETURN_IF_ERROR(allocate(plan, runner));
  PAGODA_ASSIGN_OR_RETURN(tier_media,
                          set_kv_tiers(flags, plan, *model.source, model.runners, places, metrics));
  memory = memory_table(flags, model, plan);
  if (adapters != nullptr) memory.adapter_bytes = adapters->loaded_bytes();
  for (const DraftModel& draft : drafts)
    memory.draft_bytes += plan.draft_kv_bytes + draft.step_bytes() + draft.resident_bytes();
  ledger = make_ledger(memory, plan.kv, uses_device(flags));
  if (adapters != nullptr) adapters->set_memory(*ledger, add_adapter_account(*ledger, memory));
  num_threads = model.options.threads * flags.data_parallel_size;
  warn_about_model(model);
  if (flags.async_scheduling && !is_async(flags))
    log_warning("start",
                "--async-scheduling has no effect with several ranks on CPUs, nor with --scheduler orca "
                "or fastertransformer");
  const LoadedRunner& runner = model.runners.front();
  vector_size = runner.vector_size();
  computes_on = runner.computes_on();
  if (runner.bits_depend_on_batch()) computes_on += "; bits depend on the batch";
  metrics
      .gauge("pagoda:bits_depend_on_batch",
             "1 if a token's bits may depend on its batch (--device-kernels fastest, --device-products "
             "cublaslt).")
      .set(runner.bits_depend_on_batch() ? 1 : 0);
  group = runner.group();
  poison = poison_record(flags);
  replicas.resize(model.runners.size());
  for (std::size_t i = 0; i < replicas.size(); ++i)
    PAGODA_RETURN_IF_ERROR(build_core(flags, plan, static_cast<std::int32_t>(i), model.runners[i]));
  return ok_status();
}

Status AssembledEngine::Parts::connect_observers(const EngineFlags& flags, const EnginePlan& plan,
                                                 StepObserver* observer, std::size_t number) {
  Replica& replica = replicas[number];
  EngineCore& core = *replica.core;
  if (observer != nullptr) core.add_observer(*observer);
  replica.first_answer = std::make_unique<WeightWritingObserver>(*weight_caching->writing);
  core.add_observer(*replica.first_answer);
  if (flags.lora.enable) {
    replica.adapters = std::make_unique<AdapterMetrics>(metrics.labelled(concat("engine=\"", number, "\"")),
                                                        flags.lora.max_together(uses_device(flags)));
    core.add_observer(*replica.adapters);
  }
  if (flags.kv_events.enabled) {
    if (!plan.engine.enable_prefix_caching)
      log_warning("start", "--kv-events-config has no effect without prefix caching");
    const auto rank = static_cast<std::int32_t>(number);
    auto publisher =
        KvEventPublisher::create(config_of_rank(flags.kv_events, rank), plan.engine.block_size, tier_media,
                                 metrics.labelled(concat("engine=\"", number, "\"")));
    if (!publisher) return publisher.error().annotate("--kv-events-config");
    replica.kv_events = *std::move(publisher);
    replica.cache_events = std::make_unique<CacheEvents>(*replica.kv_events);
    core.add_observer(*replica.cache_events);
  }
  if (flags.record.empty()) return ok_status();
  const std::string path = replicas.size() == 1 ? flags.record : concat(flags.record, ".", number);
  auto created = Recorder::create(path, run_header(flags, plan), clock);
  if (!created) return created.error().annotate("--record");
  replica.recorder = *std::move(created);
  core.add_observer(*replica.recorder);
  return ok_status();
}

Status AssembledEngine::Parts::connect(const EngineFlags& flags, const EnginePlan& plan,
                                       const LoadedModel& model, Report report) {
  const ModelInfo& info = model.info;
  api.eos_token_ids = answer_ends(info, tokenizer.get());
  if (tokenizer != nullptr) {
    if (report == Report::table) log_info("start", describe_ends(api.eos_token_ids, *tokenizer));
    auto backend = make_xgrammar_backend(*tokenizer, info.decoder.vocab_size, api.eos_token_ids);
    if (backend != nullptr) {
      GrammarService::Options kept;
      grammar_memory = set_aside_for_grammars(*ledger, num_threads, kept);
      grammars = std::make_unique<GrammarService>(std::move(backend), kept);
    }
  }
  if (model.options.pooling) api.vectors = vector_model(*model.options.pooling, info, vector_size);
  api.facts.weight_bytes = memory.weight_bytes + memory.embedding_bytes;
  PAGODA_RETURN_IF_ERROR(connect_api(flags, plan,
                                     {.source = *model.source,
                                      .model = info,
                                      .tokenizer = tokenizer.get(),
                                      .chat_templates = chat_templates,
                                      .grammars = grammars.get()},
                                     api));
  if (report == Report::table && !model.options.pooling) log_info("start", describe(api.defaults));
  api.adapters = adapters.get();
  return ok_status();
}

Status AssembledEngine::Parts::load_adapters(const EngineFlags& flags, const ModelSource& source) {
  if (adapters == nullptr) return ok_status();
  const std::vector<std::string> names = model_names(flags, source);
  adapters->set_model_names(names);
  for (const LoraModule& each : flags.lora.modules) {
    const auto loaded = adapters->load(each.name, each.path, false);
    if (!loaded) return loaded.error().annotate(concat("--lora-modules ", each.name, "=", each.path));
    const bool is_ours = each.base_model_name.empty() || std::ranges::count(names, each.base_model_name) > 0;
    log_info("start", concat("adapter '", each.name, "' of rank ", (*loaded)->rank, " is loaded",
                             is_ours ? "" : concat("; it was made for ", each.base_model_name)));
  }
  return ok_status();
}

void AssembledEngine::Parts::start(EngineConfig config) {
  std::vector<EngineClient*> clients;
  for (Replica& replica : replicas) {
    const RankPlace& place = places[clients.size()];
    const ThreadPlace here(place.cpus, place.node);
    config.engine = static_cast<std::int32_t>(clients.size());
    replica.engine = std::make_unique<EngineThread>(config, std::move(replica.core));
    clients.push_back(replica.engine.get());
  }
  if (clients.size() > 1)
    engines = std::make_unique<EngineGroup>(std::move(clients), RouterKind::prefix_aware, config.seed);
}

Result<std::unique_ptr<AssembledEngine>> AssembledEngine::create(const EngineFlags& given, Report report,
                                                                 StepObserver* observer) {
  const auto start = std::chrono::steady_clock::now();
  EngineFlags flags = given;
  PAGODA_RETURN_IF_ERROR(check_memory_modes(flags));
  PAGODA_RETURN_IF_ERROR(check_device_flags(flags));
  PAGODA_RETURN_IF_ERROR(check_data_parallel(flags));
  PAGODA_RETURN_IF_ERROR(check_draft_model(flags));
  PAGODA_RETURN_IF_ERROR(check_lora_flags(flags));
  if (observer != nullptr && flags.data_parallel_size > 1)
    return invalid_argument("--data-parallel-size: this command measures one engine");
  // Rows for other servers are served from a tier of this server.
  if (flags.kv_transfer.serves && flags.kv_offloading_bytes == 0 && flags.kv_disk.empty())
    flags.kv_offloading_bytes = flags.kv_transfer.buffer_bytes;
  PAGODA_RETURN_IF_ERROR(check_answer_format_names(flags));
  if (!flags.prefix_file.empty())  // fail before minutes of loading
    if (const auto text = read_text_file(flags.prefix_file); !text)
      return text.error().annotate("--prefix-file");
  std::unique_ptr<AssembledEngine> assembled(new AssembledEngine());
  Parts& parts = *assembled->parts_;
  PAGODA_ASSIGN_OR_RETURN(auto model, parts.load(flags));
  PAGODA_RETURN_IF_ERROR(parts.load_adapters(flags, *model.source));
  const ModelInfo& info = model.info;
  ModelNumbers numbers = model_numbers(model.runners, info, model.options.max_num_batched_tokens);
  for (const DraftModel& draft : parts.drafts) {
    numbers.draft_bytes_per_token = draft.kv_bytes_per_token();
    numbers.kv_room.taken += draft.step_bytes();
  }
  if (parts.adapters != nullptr && uses_device(flags))
    numbers.kv_room.taken +=
        parts.adapters->most_bytes(flags.lora.max_together(true), flags.lora.runtime_updating);
  PAGODA_ASSIGN_OR_RETURN(auto plan, plan_engine(flags, numbers, host_memory()));
  plan.engine.log_stats = report == Report::table && !flags.disable_log_stats;

  PAGODA_RETURN_IF_ERROR(parts.build(flags, plan, model));
  for (std::size_t i = 0; i < parts.replicas.size(); ++i)
    PAGODA_RETURN_IF_ERROR(parts.connect_observers(flags, plan, observer, i));
  PAGODA_RETURN_IF_ERROR(parts.connect(flags, plan, model, report));
  if (report == Report::table) {
    log_model(flags, info, parts.api.model_names.front(), parts.computes_on);
    log_memory_table(parts.memory, info, flags, plan.kv.max_model_len);
    if (const KvGroupPlan& kv_plan = plan.groups; kv_plan.groups.size() > 1)
      log_info("memory", concat("KV groups: ", describe_groups(kv_plan), "; pages of ", plan.block_bytes,
                                " bytes, ", fixed(100 * kv_plan.padding, 1), " % padding"));
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    log_info("start", concat("engine ready after ", fixed(seconds, 3), " s"));
  }
  parts.start(plan.engine);
  if (!flags.prefix_file.empty())
    PAGODA_RETURN_IF_ERROR(register_prefixes(flags.prefix_file, parts.api, assembled->client()));
  return assembled;
}

EngineClient& AssembledEngine::client() {
  if (parts_->engines) return *parts_->engines;
  return *parts_->replicas.front().engine;
}
MetricsRegistry& AssembledEngine::metrics() { return parts_->metrics; }
const Tokenizer* AssembledEngine::tokenizer() const { return parts_->tokenizer.get(); }
const ChatTemplate* AssembledEngine::chat_template() const { return parts_->chat_templates.usual.get(); }
const ApiContext& AssembledEngine::api() const { return parts_->api; }
const MemoryTable& AssembledEngine::memory() const { return parts_->memory; }
MemoryBudget& AssembledEngine::ledger() { return *parts_->ledger; }
const std::string& AssembledEngine::model_name() const { return parts_->api.model_names.front(); }
int AssembledEngine::num_threads() const { return parts_->num_threads; }
const RankSteps* AssembledEngine::rank_steps() const {
  return parts_->group == nullptr ? nullptr : &parts_->group->steps();
}
std::size_t AssembledEngine::num_engines() const { return parts_->replicas.size(); }
std::optional<std::uint64_t> AssembledEngine::beat(std::size_t engine) const {
  return parts_->replicas[engine].engine->beat();
}
void AssembledEngine::give_up() {
  for (Replica& replica : parts_->replicas) replica.engine->give_up();
}
void AssembledEngine::stop() {
  for (Replica& replica : parts_->replicas)
    if (replica.engine) replica.engine->stop();
}
void AssembledEngine::finish_weight_writing() {
  constexpr std::chrono::seconds kPatience{10};
  const Status written = pagoda::finish_weight_writing(*parts_->weight_caching->writing, kPatience);
  if (written.code() == StatusCode::cancelled)
    log_info("weights", "packed weights are not on disk: `pagoda pack` writes them");
}
Status AssembledEngine::write_weights() {
  return pagoda::finish_weight_writing(*parts_->weight_caching->writing, std::chrono::hours{24 * 365});
}

}  // namespace pagoda
