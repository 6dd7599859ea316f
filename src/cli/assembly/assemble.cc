#include "cli/assembly/assemble.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <numeric>

#include "api/api_context.h"
#include "base/log.h"
#include "base/strings.h"
#include "base/version.h"
#include "cli/assembly/answer_ends.h"
#include "cli/assembly/answer_format_names.h"
#include "cli/assembly/chosen_types.h"
#include "cli/assembly/devices.h"
#include "cli/assembly/hub_paths.h"
#include "cli/assembly/load_chat_template.h"
#include "cli/assembly/load_tokenizer.h"
#include "cli/assembly/loaded_runner.h"
#include "cli/assembly/memory_modes.h"
#include "cli/assembly/memory_plan.h"
#include "cli/assembly/model_overrides.h"
#include "cli/assembly/poison_file.h"
#include "cli/assembly/pooling.h"
#include "cli/assembly/ranks.h"
#include "cli/assembly/runner_options.h"
#include "cli/assembly/sampling_defaults.h"
#include "cli/assembly/tokenizer_info.h"
#include "cli/serve/register_prefixes.h"
#include "constraint/grammar_service.h"
#include "engine/cache_events.h"
#include "engine/engine_thread.h"
#include "kv_events/event_publisher.h"
#include "models/unused_tensors.h"
#include "sim/recorder.h"

namespace pagoda {

struct AssembledEngine::Parts {
  SteadyClock clock;
  MetricsRegistry metrics;
  std::unique_ptr<Tokenizer> tokenizer;
  ChatTemplates chat_templates;
  std::unique_ptr<GrammarService> grammars;  // null: this build has none
  ApiContext api;
  MemoryTable memory;
  std::unique_ptr<MemoryBudget> ledger;
  MemoryReservation grammar_memory;  // set aside for what the service keeps
  int num_threads = 0;
  std::unique_ptr<Recorder> recorder;             // of --record
  std::unique_ptr<KvEventPublisher> kv_events;    // null: nothing is published
  std::unique_ptr<CacheEvents> cache_events;      // connects it to the engine
  std::unique_ptr<PoisonRecord> poison;           // null: none is kept
  const DistributedModelRunner* group = nullptr;  // the engine's; null: alone
  std::unique_ptr<Communicator> ranks;            // null: this process is alone
  std::unique_ptr<EngineThread> engine;           // last: its thread uses what stands above
};

namespace {

std::vector<std::string> model_names(const EngineFlags& flags, const ModelSource& source) {
  std::vector<std::string> given = flags.served_model_names;
  std::erase_if(given, is_pattern);
  if (!given.empty()) return given;
  // ORG/NAME is a name already; a path is named after its last part.
  if (!flags.model.empty() && !std::filesystem::exists(flags.model)) return {flags.model};
  std::filesystem::path path(source.path());
  if (path.filename().empty()) path = path.parent_path();
  return {path.extension() == ".gguf" ? path.stem().string() : path.filename().string()};
}

std::string ranks_text(const EngineFlags& flags) {
  if (flags.tensor_parallel_size == 1) return {};
  return concat(flags.tensor_parallel_size, " ranks of ");
}

}  // namespace

AssembledEngine::AssembledEngine() : parts_(std::make_unique<Parts>()) {}
AssembledEngine::~AssembledEngine() = default;

Result<std::unique_ptr<AssembledEngine>> AssembledEngine::create(const EngineFlags& given, Report report,
                                                                 StepObserver* observer) {
  const auto start = std::chrono::steady_clock::now();
  EngineFlags flags = given;
  PAGODA_RETURN_IF_ERROR(check_memory_modes(flags));
  PAGODA_RETURN_IF_ERROR(check_device_flags(flags));
  auto path = model_path(flags);
  if (!path) return path.error();
  std::unique_ptr<AssembledEngine> assembled(new AssembledEngine());
  Parts& parts = *assembled->parts_;
  auto ranks = join_ranks(flags);
  if (!ranks) return ranks.error();
  parts.ranks = *std::move(ranks);
  const auto overrides = model_overrides(flags);
  if (!overrides) return overrides.error();
  auto opened = ModelSource::open(*path, hub_paths_from_environment(), *overrides);
  if (!opened) return opened.error();
  const std::shared_ptr<const ModelSource> source = std::move(*opened);
  const ModelConfig& config = source->config();

  auto tokenizer = flags.tokenizer.empty() ? load_tokenizer(*source) : load_tokenizer(flags.tokenizer);
  if (tokenizer) {
    parts.tokenizer = std::move(*tokenizer);
  } else if (tokenizer.error().code() != StatusCode::not_found || !flags.tokenizer.empty()) {
    return tokenizer.error();
  }
  auto chat_templates = load_chat_templates(flags.chat_template, *source);
  if (!chat_templates) return chat_templates.error();
  parts.chat_templates = *std::move(chat_templates);

  auto options = runner_options(flags, config);
  if (!options) return options.error();
  auto pooling = pooling_model(flags, *source, parts.tokenizer.get());
  if (!pooling) return pooling.error();
  options->pooling = *std::move(pooling);
  auto runner = LoadedRunner::create(source, *options, flags, parts.ranks.get());
  if (!runner) return runner.error();
  std::int32_t block_size = flags.block_size;
  const RankTotals totals = runner->totals();
  std::int64_t block_bytes = totals.kv_block_bytes;
  std::optional<VirtualKvPlan> virtual_plan;
  KvGroupPlan runner_plan = runner->kv_plan();
  if (is_baseline(flags) && runner_plan.has_states())
    return invalid_argument(
        "--kv-manager reserved has no place for the states of this model's layers: use --kv-manager paged");
  if (is_virtual(flags)) {
    auto planned = virtual_kv_plan(flags, runner->kv_page_layout(), runner->page_granule());
    if (!planned) return planned.error();
    virtual_plan = *planned;
    block_size = virtual_plan->layout.block_size;
    block_bytes = virtual_block_bytes(*virtual_plan, totals.kv_heads);
    auto in_blocks = in_blocks_of(std::move(runner_plan), virtual_plan->layout);
    if (!in_blocks) return in_blocks.error();
    runner_plan = *std::move(in_blocks);
  }
  const std::vector<KvGroup>& groups = runner_plan.groups;
  auto plan = plan_kv_cache(flags, config, groups, block_bytes, runner->kv_room());
  if (!plan) return plan.error();
  const std::int64_t swap_blocks = num_swap_blocks(flags, plan->num_blocks, block_bytes);
  std::optional<VirtualMemory> virtual_memory;
  std::function<bool(std::int64_t)> may_create;
  if (virtual_plan) {
    auto planned = plan_virtual_memory(flags, *virtual_plan, groups, plan->num_blocks, plan->max_model_len);
    if (!planned) return planned.error();
    virtual_memory = *planned;
    PAGODA_RETURN_IF_ERROR(runner->allocate_virtual_kv(virtual_memory->layout, virtual_memory->shape,
                                                       plan->num_blocks, swap_blocks));
    // The manager adds pages in the order of their numbers.
    may_create = [create = runner->page_creator(), &parts,
                  next = std::int64_t{virtual_memory->num_created}](std::int64_t count) mutable {
      const Status status = create(next, count);
      if (parts.recorder) parts.recorder->on_grant(status.ok());
      if (!status.ok()) {
        log_warning("kv", status.message());
        return false;
      }
      next += count;
      return true;
    };
  } else if (!groups.empty()) {
    PAGODA_RETURN_IF_ERROR(runner->allocate_kv_cache(plan->num_blocks, swap_blocks));
  }

  const MemoryPlan memory = runner->memory_plan();
  parts.memory = {.weight_bytes = totals.weight_bytes,
                  .embedding_bytes = runner->embedding_bytes(),
                  .mapped_bytes = totals.mapped_bytes,
                  .kv_bytes = groups.empty() ? memory.kv_bytes : plan->num_blocks * block_bytes,
                  .swap_bytes = swap_blocks * block_bytes,
                  .activation_bytes = memory.activation_bytes,
                  .buffer_bytes = memory.buffer_bytes,
                  .step_bytes = totals.activation_bytes,
                  .kv_tokens = tokens_in(groups, plan->num_blocks, !flags.enable_chunked_prefill),
                  // Until windows give something back.
                  .kv_bytes_per_token = std::accumulate(groups.begin(), groups.end(), std::int64_t{0},
                                                        [](std::int64_t pages, const KvGroup& group) {
                                                          return pages +
                                                                 (group.is_state() ? 0 : group.pages_per_row);
                                                        }) *
                                        block_bytes / block_size,
                  .computed_in = !uses_device(flags)     ? chosen_arithmetic(flags.dtype, *source)
                                 : flags.dtype == "auto" ? "bfloat16"
                                                         : flags.dtype,
                  .kv_dtype = std::string(kv_dtype_name(runner->kv_page_layout().dtype))};
  parts.memory.concurrency = groups.empty() ? flags.max_num_seqs
                             : groups.size() == 1
                                 ? static_cast<double>(parts.memory.kv_tokens) / plan->max_model_len
                                 : static_cast<double>(plan->num_blocks) /
                                       static_cast<double>(pages_for(groups, plan->max_model_len));
  parts.ledger = make_ledger(parts.memory, *plan, uses_device(flags));
  parts.num_threads = options->threads;
  const UnusedTensors unused = describe_unused(runner->ignored_tensors(), config.num_layers);
  if (!unused.beside_text.empty()) log_info("start", concat("not loaded: ", unused.beside_text));
  if (!unused.unknown.empty())
    log_warning("start", concat("architecture ", config.architecture, " does not use ", unused.unknown,
                                " of the model's files"));
  if (source->format() == ModelFormat::hugging_face && config.tie_embeddings && !runner->head_is_tied())
    log_warning("start",
                "config.json ties the head to the embedding, but the files hold two that differ; both are "
                "used, as by transformers");
  if (const std::string unknown = describe_unknown_options(config); !unknown.empty())
    log_warning("start", unknown);

  EngineConfig engine_config;
  engine_config.max_model_len = plan->max_model_len;
  engine_config.max_num_seqs = flags.max_num_seqs;
  engine_config.max_num_batched_tokens = options->max_num_batched_tokens;
  engine_config.block_size = block_size;
  if (groups != one_full_group(block_size)) engine_config.kv_groups = groups;
  engine_config.rotation = runner->runner().rotation_rule();
  engine_config.enable_prefix_caching = flags.enable_prefix_caching && !groups.empty();
  engine_config.enable_chunked_prefill = flags.enable_chunked_prefill;
  engine_config.scheduling_policy = scheduling_policy(flags);
  set_memory_modes(flags, block_bytes, engine_config);
  engine_config.max_waiting = flags.max_queue;
  engine_config.max_queue_s = flags.max_queue_time_s.value_or(0);
  engine_config.seed = flags.seed;
  engine_config.vocab_size = config.vocab_size;
  engine_config.speculative = flags.speculative;
  engine_config.forced_drafts = !is_baseline(flags);
  engine_config.target_itl_ms = flags.target_itl_ms.value_or(0);
  engine_config.log_stats = report == Report::table && !flags.disable_log_stats;
  PAGODA_RETURN_IF_ERROR(validate(engine_config));

  auto engine_parts = make_memory_parts(flags, engine_config, plan->num_blocks, swap_blocks, source->path(),
                                        virtual_memory ? &*virtual_memory : nullptr, std::move(may_create));
  if (!engine_parts) return engine_parts.error();
  const std::int32_t vector_size = runner->vector_size();
  const std::string computes_on = runner->computes_on();
  parts.group = runner->group();
  engine_parts->runner = runner->take();
  parts.poison = poison_record(flags);
  engine_parts->poison = parts.poison.get();
  auto core =
      std::make_unique<EngineCore>(engine_config, *std::move(engine_parts), parts.clock, parts.metrics);
  if (observer != nullptr) core->add_observer(*observer);
  if (flags.kv_events.enabled) {
    if (!engine_config.enable_prefix_caching)
      log_warning("start", "--kv-events-config without prefix caching: there is nothing to tell");
    auto publisher = KvEventPublisher::create(flags.kv_events, block_size, parts.metrics);
    if (!publisher) return publisher.error().annotate("--kv-events-config");
    parts.kv_events = *std::move(publisher);
    parts.cache_events = std::make_unique<CacheEvents>(*parts.kv_events);
    core->add_observer(*parts.cache_events);
  }
  if (!flags.record.empty()) {
    const RunHeader header{
        .modes = {.scheduler = flags.scheduler,
                  .kv_manager = flags.kv_manager,
                  .reserve = flags.reserve,
                  .slots = virtual_memory ? std::optional(virtual_memory->slots) : std::nullopt,
                  .num_created = virtual_memory ? virtual_memory->num_created : 0},
        .engine = engine_config,
        .num_blocks = plan->num_blocks,
        .num_swap_blocks = swap_blocks};
    auto recorder = Recorder::create(flags.record, header, parts.clock);
    if (!recorder) return recorder.error().annotate("--record");
    parts.recorder = *std::move(recorder);
    core->add_observer(*parts.recorder);
  }

  parts.api.tokenizer = parts.tokenizer.get();
  parts.api.chat_template = parts.chat_templates.usual.get();
  parts.api.tool_template = parts.chat_templates.tool_use.get();
  PAGODA_RETURN_IF_ERROR(choose_answer_formats(flags, parts.chat_templates, parts.api));
  parts.api.model_names = model_names(flags, *source);
  parts.api.model_root = parts.api.model_names.front();
  for (const std::string& name : flags.served_model_names)
    if (is_pattern(name)) parts.api.model_patterns.push_back(name);
  if (flags.any_model_name) parts.api.model_patterns.emplace_back("*");
  parts.api.max_model_len = plan->max_model_len;
  parts.api.max_num_seqs = flags.max_num_seqs;
  parts.api.allow_request_chat_template = flags.server.trust_request_chat_template;
  auto template_kwargs = default_template_kwargs(flags.default_chat_template_kwargs);
  if (!template_kwargs) return template_kwargs.error();
  parts.api.template_kwargs = *std::move(template_kwargs);
  parts.api.vocab_size = config.vocab_size;
  parts.api.max_logprobs = flags.max_logprobs < 0 ? config.vocab_size : flags.max_logprobs;
  parts.api.eos_token_ids = answer_ends(config, parts.tokenizer.get());
  if (report == Report::table && parts.tokenizer != nullptr)
    log_info("start", describe_ends(parts.api.eos_token_ids, *parts.tokenizer));
  if (parts.tokenizer != nullptr) {
    auto backend = make_xgrammar_backend(*parts.tokenizer, config.vocab_size, parts.api.eos_token_ids);
    if (backend != nullptr) {
      GrammarService::Options kept;
      parts.grammar_memory = set_aside_for_grammars(*parts.ledger, parts.num_threads, kept);
      parts.grammars = std::make_unique<GrammarService>(std::move(backend), kept);
    }
    parts.api.grammars = parts.grammars.get();
  }
  auto defaults = sampling_defaults(*source, flags.override_generation_config, flags.generation_config);
  if (!defaults) return defaults.error();
  parts.api.defaults = with_flags(*std::move(defaults), flags.sampling);
  if (report == Report::table && !options->pooling) log_info("start", describe(parts.api.defaults));
  parts.api.version = version();
  if (options->pooling) parts.api.vectors = vector_model(*options->pooling, config, vector_size);
  parts.api.facts = {.architecture = config.architecture,
                     .weight_type = config.weight_type,
                     .weight_bytes = totals.weight_bytes + parts.memory.embedding_bytes,
                     .hidden_size = config.hidden_size,
                     .num_layers = config.num_layers};
  parts.api.model_created = static_cast<std::int64_t>(std::time(nullptr));
  if (parts.tokenizer != nullptr) {
    parts.api.make_ready();
    parts.api.tokenizer_info = tokenizer_info(*source, flags.tokenizer, *parts.tokenizer,
                                              parts.chat_templates.usual.get(), plan->max_model_len);
  }

  if (report == Report::table) {
    log_info("start", concat("model ", parts.api.model_names.front(), ": ", config.architecture, ", ",
                             config.num_layers, " layers, hidden ", config.hidden_size, ", ",
                             config.num_heads, " heads, ", config.num_kv_heads,
                             config.num_kv_heads == 1 ? " KV head" : " KV heads", ", vocabulary ",
                             config.vocab_size, "; ", ranks_text(flags), computes_on));
    log_memory_table(parts.memory, config, flags, plan->max_model_len);
    if (const KvGroupPlan& kv = runner_plan; kv.groups.size() > 1)
      log_info("memory", concat("KV groups: ", describe_groups(kv), "; pages of ", block_bytes, " bytes, ",
                                fixed(100 * kv.padding, 1), " % padding"));
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    log_info("start", concat("engine ready after ", fixed(seconds, 3), " s"));
  }
  parts.engine = std::make_unique<EngineThread>(engine_config, std::move(core));
  if (!flags.prefix_file.empty())
    PAGODA_RETURN_IF_ERROR(register_prefixes(flags.prefix_file, parts.api, *parts.engine));
  return assembled;
}

EngineClient& AssembledEngine::client() { return *parts_->engine; }
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
std::optional<std::uint64_t> AssembledEngine::beat() const { return parts_->engine->beat(); }
void AssembledEngine::give_up() { parts_->engine->give_up(); }
void AssembledEngine::stop() { parts_->engine->stop(); }

}  // namespace pagoda
