#include "cli/flags/foreign_flags.h"

#include "base/strings.h"

namespace pagoda {
namespace {

struct Foreign {
  std::string_view name;
  std::string_view here;  // what follows "is"
};

constexpr Foreign kLlamaServer[] = {
    {"-m", "the first word, or --model,"},
    {"-a", "--served-model-name"},
    {"--alias", "--served-model-name"},
    {"-c", "--max-model-len"},
    {"--ctx-size", "--max-model-len"},
    {"-np", "--max-num-seqs"},
    {"--parallel", "--max-num-seqs"},
    {"-t", "--threads"},
    {"-b", "--max-num-batched-tokens"},
    {"--batch-size", "--max-num-batched-tokens"},
    {"-ub", "--max-num-batched-tokens"},
    {"--ubatch-size", "--max-num-batched-tokens"},
    {"-ctk", "--kv-cache-dtype"},
    {"-ctv", "--kv-cache-dtype"},
    {"--cache-type-k", "--kv-cache-dtype"},
    {"--cache-type-v", "--kv-cache-dtype"},
    {"--chat-template-file", "--chat-template"},
    {"-n", "max_tokens of a request"},
    {"--n-predict", "max_tokens of a request"},
    {"--temp", "temperature of a request"},
    {"-ngl", "not needed: layers stay on the CPU"},
    {"--n-gpu-layers", "not needed: layers stay on the CPU"},
    {"--jinja", "not needed: templates are always Jinja"},
    {"-cb", "not needed: batches are always continuous"},
};

// With two letters, aliases of real flags: vLLM's, and llama-server's.
constexpr std::string_view kShortAliases[] = {"-tp", "-pp", "-dp", "-hf"};

}  // namespace

std::string foreign_flag(std::string_view flag) {
  for (const Foreign& foreign : kLlamaServer) {
    const bool same = flag == foreign.name || (flag.starts_with("--") && flag.substr(1) == foreign.name);
    if (same)
      return concat("unknown flag ", foreign.name, "; llama-server's ", foreign.name, " is ", foreign.here,
                    " here");
  }
  return {};
}

std::string with_two_dashes(const std::string& argument) {
  for (const std::string_view name : kShortAliases)
    if (argument == name) return "-" + argument;
  for (const Foreign& foreign : kLlamaServer)
    if (argument == foreign.name && argument.size() > 2 && argument[1] != '-') return "-" + argument;
  return argument;
}

}  // namespace pagoda
