#include "cli/assembly/kv_fingerprint.h"

#include <cstdio>
#include <type_traits>

#include "base/assign_or_return.h"
#include "base/build_id.h"
#include "base/strings.h"
#include "base/version.h"
#include "cli/assembly/chosen_types.h"
#include "cli/assembly/default_model.h"
#include "cli/assembly/devices.h"
#include "cli/assembly/model_overrides.h"
#include "cli/assembly/weights_digest.h"
#include "kernels/amx.h"
#include "kernels/backend.h"
#include "kv_store/fingerprint.h"
#include "models/read_config.h"
#include "models/weights/kv_scales.h"

namespace pagoda {
namespace {

// Must change with the order of K/V within the bytes of a row.
constexpr std::string_view kRowLayout = "1";

template <class List>
std::string joined(const List& list) {
  std::string out;
  for (const auto& item : list) out += concat(item, "\n");
  return out;
}

std::string exact(double number) {
  char text[40];
  const int length = std::snprintf(text, sizeof text, "%a", number);
  return {text, static_cast<std::size_t>(length)};
}

// Converts a value of GGUF metadata into a unique text.
std::string value_text(const GgufValue& value) {
  return std::visit(
      [](const auto& held) -> std::string {
        using Held = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<Held, std::shared_ptr<GgufArray>>) {
          std::string out = concat(held->size(), " of\n", joined(held->integers));
          for (const double number : held->floats) out += concat(exact(number), "\n");
          for (const std::string_view text : held->strings) out += concat(text.size(), " ", text, "\n");
          for (const bool flag : held->booleans) out += flag ? "1" : "0";
          return out;
        } else if constexpr (std::is_same_v<Held, double>) {
          return exact(held);
        } else {
          return concat(held);
        }
      },
      value);
}

// Adds types, instructions or device, and the layout of rows.
void add_arithmetic(Fingerprint& out, const EngineFlags& flags, const LoadedRunner& runner) {
  out.add("dtype", flags.dtype);
  out.add("backend", flags.backend);
  if (uses_device(flags)) {
    out.add("device",
            concat(runner.computes_on(), "\n", flags.device_attention, "\n",
                   flags.device_kernels == "fastest" ? flags.device_kernels : flags.device_products));
  } else {
    const auto level = cpu_level_named(flags.cpu_level).value_or(detected_cpu_level());
    out.add("cpu level", cpu_kernels_name(level));
  }
  const int ranks = flags.mpi_local_size > 0 ? -1 : flags.tensor_parallel_size;
  out.add("ranks", concat(ranks, flags.deterministic_allreduce     ? " gather"
                                 : flags.disable_custom_all_reduce ? " sum by NCCL"
                                                                   : " sum"));
  const KvLayout page = runner.kv_page_layout();
  const KvGroupPlan& plan = runner.kv_plan();
  out.add("row",
          concat(kRowLayout, " ", dtype_info(page.dtype).name, " ", page.num_layers, " ", page.num_kv_heads,
                 " ", page.head_size, " ", page.latent_size, " ", page.block_stride, " ", page.layer_stride,
                 " ", plan.page_layers, " ", flags.block_size, " ", flags.kv_manager));
  std::string groups;
  for (const KvGroup& group : plan.groups)
    groups += concat(static_cast<int>(group.kind), " ", group.tokens_per_row, " ", group.window, " ",
                     group.pages_per_row, " ", group.state_bytes, "\n");
  out.add("groups", groups);
}

}  // namespace

KvDigest model_digest(const ModelSource& source, const ModelOverrides& overrides) {
  Fingerprint out;
  out.add("config.json", source.config_json());
  if (const GgufFile* const gguf = source.gguf())
    for (const auto& [key, value] : gguf->metadata()) out.add(key, value_text(value));
  out.add("overrides", concat(overrides.config, "\n", overrides.rope, "\n", overrides.metadata));
  return out.finish();
}

Result<KvDigest> kv_fingerprint(const EngineFlags& flags, const ModelSource& source,
                                const LoadedRunner& runner, ThreadPool& pool) {
  PAGODA_ASSIGN_OR_RETURN(const auto overrides, model_overrides(flags));
  PAGODA_ASSIGN_OR_RETURN(const auto weights,
                          cached_weights_digest(source, cache_directory() + "/digests", pool));
  Fingerprint out;
  out.add("program", concat(version(), " ", build_id()));
  out.add("weights", hex(weights));
  out.add("model", hex(model_digest(source, overrides)));
  add_arithmetic(out, flags, runner);
  if (runner.kv_page_layout().dtype == DType::e4m3) {
    PAGODA_ASSIGN_OR_RETURN(const auto read, read_model_config(source));
    PAGODA_ASSIGN_OR_RETURN(const auto scales, kv_scales(source, read));
    std::string text;
    for (const KvScales& scale : scales) text += concat(exact(scale.key), " ", exact(scale.value), "\n");
    out.add("scales", text);
  }
  return out.finish();
}

}  // namespace pagoda
