// The flags for adapters that requests choose.
#include <algorithm>

#include "base/assign_or_return.h"
#include "base/strings.h"
#include "cli/flags/engine_flag_table.h"
#include "cli/flags/flag_values.h"
#include "cli/flags/lora_module_flag.h"

namespace pagoda {
namespace {

constexpr std::int32_t kMaxAdapters = 4096;
constexpr std::int32_t kRanks[] = {1, 8, 16, 32, 64, 128, 256, 320, 512};  // as in vLLM

}  // namespace

std::vector<Flag> adapter_flag_table(EngineFlags& all) {
  LoraFlags& flags = all.lora;
  const auto store_module = [&flags](const std::string& value) -> Status {
    PAGODA_ASSIGN_OR_RETURN(LoraModule module, parse_lora_module(value));
    flags.modules.push_back(std::move(module));
    return ok_status();
  };
  const auto store_rank = [&flags](std::int64_t rank) { flags.max_rank = static_cast<std::int32_t>(rank); };
  FlagValue rank = flags::integer(kRanks[0], std::end(kRanks)[-1], store_rank);
  rank.store = [&flags, parse = rank.store](const std::string& value) -> Status {
    PAGODA_RETURN_IF_ERROR(parse(value));
    if (std::ranges::find(kRanks, flags.max_rank) != std::end(kRanks)) return ok_status();
    return invalid_argument(concat("'", value, "' is none of 1, 8, 16, 32, 64, 128, 256, 320 and 512"));
  };
  const auto count = [](std::optional<std::int32_t>& variable) {
    return flags::integer(1, kMaxAdapters,
                          [&variable](std::int64_t value) { variable = static_cast<std::int32_t>(value); });
  };
  return {
      {.name = "enable-lora",
       .value = flags::on(flags.enable),
       .help = "requests may choose a LoRA adapter by its name, as their model",
       .details = "requests may choose a LoRA adapter by its name, as their `model` ([adapters](lora.md))"},
      {.name = "lora-modules",
       .value = {.shape = FlagValue::Shape::several, .type = "NAME=PATH", .store = store_module},
       .help = "LoRA adapters that requests can choose: NAME=PATH, or vLLM's JSON",
       .details = "LoRA adapters that requests can choose: NAME=PATH, or vLLM's JSON "
                  "`{\"name\", \"path\", \"base_model_name\"}`. PATH is a PEFT folder (or ORG/NAME, if "
                  "cached), or a GGUF file for a GGUF model"},
      {.name = "max-loras",
       .value = count(flags.max_loras),
       .help = "maximum number of adapters among running requests; others wait",
       .details = "maximum number of adapters among running requests; a request with another adapter waits. "
                  "A device reserves memory for this many",
       .default_text = "--max-cpu-loras, 8 on a device"},
      {.name = "max-cpu-loras",
       .value = count(flags.max_cpu_loras),
       .help = "maximum number of loaded adapters; all stay in memory",
       .default_text = "64, or --max-loras if that is more"},
      {.name = "max-lora-rank",
       .value = std::move(rank),
       .help = "highest rank of an adapter: 1, 8, 16, 32, 64, 128, 256, 320 or 512",
       .default_text = "16"},
      {.name = "allow-runtime-lora-updating",
       .value = flags::on_off(flags.runtime_updating),
       .help = "administrators may load adapters from any path while the server runs",
       .details = "administrators may load and unload adapters while the server runs "
                  "(`/v1/load_lora_adapter`). The server then reads any path that such a request names"},
  };
}

}  // namespace pagoda
