#include "cli/flags/environment.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iterator>

#include "base/ascii.h"
#include "base/assign_or_return.h"
#include "base/strings.h"
#include "cli/flags/flag_limits.h"
#include "cli/flags/parse_size.h"
#include "cli/flags/suggest.h"

namespace pagoda {
namespace {

// Returns the number in the first of these variables that is set; 0 if none is.
Result<std::int32_t> launcher_number(const Environment& environment, std::initializer_list<const char*> names,
                                     std::int32_t low = 1) {
  for (const char* name : names) {
    const std::string text = environment(name);
    if (text.empty()) continue;
    std::int32_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size() || number < low || number > kMaxRanks)
      return invalid_argument(concat(name, ": '", text, "' is not between ", low, " and ", kMaxRanks));
    return number;
  }
  return 0;
}

// Under mpirun every process is a rank, and mpirun defines their number.
Status apply_launcher(const Environment& environment, EngineFlags& flags) {
  PAGODA_ASSIGN_OR_RETURN(const auto size,
                          launcher_number(environment, {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}));
  if (size < 2) return ok_status();
  PAGODA_ASSIGN_OR_RETURN(const auto local,
                          launcher_number(environment, {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"}));
  PAGODA_ASSIGN_OR_RETURN(const auto rank,
                          launcher_number(environment, {"OMPI_COMM_WORLD_RANK", "PMI_RANK"}, 0));
  if (flags.tensor_parallel_size != 1 && flags.tensor_parallel_size != size) {
    return invalid_argument(concat("--tensor-parallel-size ", flags.tensor_parallel_size,
                                   ", but mpirun has started ", size, " ranks"));
  }
  flags.tensor_parallel_size = size;
  flags.mpi_local_size = std::max(local, 1);
  flags.mpi_rank = rank;
  // Launchers that do not set a local rank give consecutive ranks to a machine.
  const bool told =
      !environment("OMPI_COMM_WORLD_LOCAL_RANK").empty() || !environment("MPI_LOCALRANKID").empty();
  PAGODA_ASSIGN_OR_RETURN(const auto local_rank,
                          launcher_number(environment, {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID"}, 0));
  flags.mpi_local_rank = (told ? local_rank : rank) % flags.mpi_local_size;
  return ok_status();
}

// Read elsewhere in the program, or by its scripts and tests.
constexpr const char* kOtherVariables[] = {
    "PAGODA_AMX",           "PAGODA_CACHE",       "PAGODA_LOGGING_LEVEL", "PAGODA_BINARY",
    "PAGODA_SHARED_DATA",   "PAGODA_CHECK_ROOT",  "PAGODA_FULL_GOLDENS",  "PAGODA_TEST_VIRTUAL_KV",
    "PAGODA_TEST_PROGRAMS", "PAGODA_TEST_DEVICE", "PAGODA_DEVICE_SEEDS",  "PAGODA_TIER_SEEDS",
    "PAGODA_KV_LIBRARY",
};

void add_names(const Command& command, std::vector<std::string>& names) {
  for (const Flag& flag : command.flags)
    if (std::string name = environment_name(flag); !name.empty()) names.push_back(std::move(name));
  for (const Command& sub : command.subcommands) add_names(sub, names);
}

// The prefix of llama.cpp's variables: LLAMA_ARG_CTX_SIZE is --ctx-size.
constexpr std::string_view kLlamaPrefix = "LLAMA_ARG_";

// Returns the variable of the flag with this name or alias; empty if there is none.
std::string variable_of(const std::string& flag_name, const Command& command) {
  for (const Flag& flag : command.flags)
    if (concat("--", flag.name) == flag_name || std::ranges::count(flag.aliases, flag_name) > 0)
      if (std::string name = environment_name(flag); !name.empty()) return name;
  for (const Command& sub : command.subcommands)
    if (std::string name = variable_of(flag_name, sub); !name.empty()) return name;
  return {};
}

// Returns a sentence about a variable of llama.cpp's server.
std::string llama_variable(const std::string& name, const Command& root) {
  std::string flag_name = "--";
  for (const char c : lowered(std::string_view(name).substr(kLlamaPrefix.size())))
    flag_name += c == '_' ? '-' : c;
  const std::string own = variable_of(flag_name, root);
  return concat("the environment's ", name, " sets nothing", own.empty() ? "" : concat("; see ", own));
}

}  // namespace

std::string environment_name(const Flag& flag) {
  if (!flag.environment || flag.name.empty()) return {};
  std::string name = "PAGODA_";
  for (const char c : flag.name)
    name += c == '-' ? '_' : c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return name;
}

Result<std::vector<std::string>> environment_value(const Flag& flag, const Environment& environment) {
  const std::string name = environment_name(flag);
  std::string value = name.empty() ? name : environment(name.c_str());
  if (value.empty()) return std::vector<std::string>();
  if (flag.value.takes_value()) return std::vector<std::string>{std::move(value)};
  value = lowered(value);
  for (const char* word : {"1", "true", "yes", "on"})
    if (value == word) return std::vector<std::string>{"true"};
  for (const char* word : {"0", "false", "no", "off"}) {
    if (value != word) continue;
    if (flag.value.shape == FlagValue::Shape::on) return std::vector<std::string>();
    return std::vector<std::string>{"false"};
  }
  return invalid_argument(concat("'", value, "' is neither true nor false"));
}

std::vector<std::string> unknown_variables(const std::vector<std::string>& names, const Command& root) {
  std::vector<std::string> known(std::begin(kOtherVariables), std::end(kOtherVariables));
  add_names(root, known);
  std::vector<std::string> out;
  for (const std::string& name : names) {
    if (name.starts_with(kLlamaPrefix)) out.push_back(llama_variable(name, root));
    if (!name.starts_with("PAGODA_") || std::ranges::count(known, name) > 0) continue;
    out.push_back(concat("the environment's ", name, " sets nothing", suggestion(name, known)));
  }
  return out;
}

Status apply_environment(const Environment& environment, EngineFlags& flags) {
  PAGODA_RETURN_IF_ERROR(apply_launcher(environment, flags));
  for (const char* name : {"PAGODA_API_KEY", "VLLM_API_KEY", "LLAMA_API_KEY"}) {
    if (!flags.server.api_keys.empty()) break;
    if (std::string key = environment(name); !key.empty()) flags.server.api_keys.push_back(std::move(key));
  }
  if (const std::string gib = environment("VLLM_CPU_KVCACHE_SPACE");
      !gib.empty() && !flags.kv_cache_memory_bytes) {
    const auto bytes = parse_size(gib + "GiB");
    if (!bytes) return invalid_argument(concat("VLLM_CPU_KVCACHE_SPACE: '", gib, "' is not a number of GiB"));
    if (*bytes > 0) flags.kv_cache_memory_bytes = *bytes;
  }
  if (const std::string allowed = lowered(environment("VLLM_ALLOW_RUNTIME_LORA_UPDATING"));
      allowed == "1" || allowed == "true")
    flags.lora.runtime_updating = true;
  if (const std::string threads = environment("OMP_NUM_THREADS"); !threads.empty() && flags.threads == 0) {
    std::int32_t parsed = 0;
    const auto [end, error] = std::from_chars(threads.data(), threads.data() + threads.size(), parsed);
    if (error != std::errc() || parsed < 1 || parsed > kMaxThreads)
      return invalid_argument(concat("OMP_NUM_THREADS: '", threads, "' is not between 1 and ", kMaxThreads));
    flags.threads = parsed;
  }
  return ok_status();
}

}  // namespace pagoda
