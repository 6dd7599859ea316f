#include "cli/assembly/loaded_model.h"

#include "base/log.h"
#include "base/strings.h"
#include "cli/assembly/chosen_types.h"
#include "cli/assembly/devices.h"
#include "models/weights/unused_tensors.h"

namespace pagoda {
namespace {

std::string ranks_text(const EngineFlags& flags) {
  if (flags.data_parallel_size > 1) return concat(flags.data_parallel_size, " engines of ");
  if (flags.tensor_parallel_size == 1) return {};
  return concat(flags.tensor_parallel_size, " ranks of ");
}

}  // namespace

void warn_about_model(const LoadedModel& model) {
  const ModelInfo& info = model.info;
  const LoadedRunner& runner = model.runners.front();
  const UnusedTensors unused = describe_unused(runner.ignored_tensors(), info.decoder.num_layers());
  if (!unused.beside_text.empty()) log_info("start", concat("not loaded: ", unused.beside_text));
  if (!unused.unknown.empty())
    log_warning("start", concat("architecture ", info.architecture, " does not use ", unused.unknown,
                                " of the model's files"));
  if (model.source->format() == ModelFormat::hugging_face && info.decoder.tied_head && !runner.head_is_tied())
    log_warning(
        "start",
        "config.json ties the output head to the embedding, but the files have two different tensors; "
        "both are used, as in transformers");
  for (const std::string& unknown : {describe_unknown_options(info), describe_unknown_ends(info)})
    if (!unknown.empty()) log_warning("start", unknown);
}

MemoryTable memory_table(const EngineFlags& flags, const LoadedModel& model, const EnginePlan& plan) {
  const LoadedRunner& runner = model.runners.front();
  const RankTotals totals = runner.totals();
  const MemoryPlan memory = runner.memory_plan();
  const std::vector<KvGroup>& groups = plan.groups.groups;
  const std::int64_t engines = std::ssize(model.runners);
  const std::int64_t weights = runner.on_device() ? engines : 1;  // each device has a copy
  const std::int64_t num_blocks = engines * plan.kv.num_blocks;
  std::int64_t pages_per_row = 0;  // pages per row, before windows free rows
  for (const KvGroup& group : groups) pages_per_row += group.is_state() ? 0 : group.pages_per_row;
  MemoryTable out{.weight_bytes = weights * totals.weight_bytes,
                  .embedding_bytes = weights * runner.embedding_bytes(),
                  .mapped_bytes = totals.mapped_bytes,
                  .kv_bytes = groups.empty() ? engines * memory.kv_bytes : num_blocks * plan.block_bytes,
                  .swap_bytes = engines * plan.num_swap_blocks * plan.block_bytes,
                  .offload_bytes = engines * plan.num_offload_blocks * plan.block_bytes,
                  .activation_bytes = engines * memory.activation_bytes,
                  .buffer_bytes = engines * memory.buffer_bytes,
                  .graph_bytes = engines * memory.graph_bytes,
                  .step_bytes = engines * totals.activation_bytes,
                  .any_length = !groups.empty() &&
                                std::ranges::none_of(
                                    groups, [](const KvGroup& group) { return group.kind == KvKind::full; }),
                  .kv_tokens = engines * tokens_in(groups, plan.kv.num_blocks, !flags.enable_chunked_prefill),
                  .kv_bytes_per_token = pages_per_row * plan.block_bytes / plan.engine.block_size,
                  .computed_in = !uses_device(flags)     ? chosen_arithmetic(flags.dtype, *model.source)
                                 : flags.dtype == "auto" ? "bfloat16"
                                                         : flags.dtype,
                  .kv_dtype = std::string(kv_dtype_name(runner.kv_page_layout().dtype))};
  const std::int32_t longest = plan.kv.max_model_len;
  if (groups.empty())
    out.concurrency = static_cast<double>(engines) * flags.max_num_seqs;
  else if (groups.size() == 1 && !out.any_length)
    out.concurrency = static_cast<double>(out.kv_tokens) / longest;
  else
    out.concurrency = static_cast<double>(num_blocks) / static_cast<double>(pages_for(groups, longest));
  return out;
}

void log_model(const EngineFlags& flags, const ModelInfo& info, const std::string& name,
               const std::string& computes_on) {
  const DecoderConfig& decoder = info.decoder;
  const HeadSizes heads = head_sizes(decoder);
  log_info("start",
           concat("model ", name, ": ", info.architecture, ", ", decoder.num_layers(), " layers, hidden ",
                  decoder.hidden_size, ", ",
                  heads.num_heads == 0 ? std::string("no attention")
                                       : concat(heads.num_heads, " heads, ", heads.num_kv_heads, " KV heads"),
                  ", vocabulary ", decoder.vocab_size, "; ", ranks_text(flags), computes_on));
}

}  // namespace pagoda
