#pragma once
// Flags of vLLM and llama-server that are no flags of ours, as one table: command lines that people copy from
// there start here. A flag whose absence changes no answer is accepted and named once in the log; one that
// would change answers, or promises what is not there, is refused with the reason. Flags that have a meaning
// here are ordinary rows, under the peer's name or with it as an alias. Rows, docs/flags.md and tests follow
// from the table.
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/flags/flag.h"

namespace pagoda {

struct PeerFlag {
  enum class Peer { vllm, llama_server };
  enum class Rule {
    no_effect,  // whatever its value is
    of_cpu,     // none on the CPU, where nothing is missed; on a device it promises what is not there
    only,       // the values in `accepted` describe what happens here anyway; others are refused
    refused,
  };
  Peer peer;
  std::string_view names;  // without dashes, with spaces between; the first is the row's
  FlagValue::Shape shape;
  Rule rule = Rule::no_effect;
  std::string_view why = {};       // reason of a refusal
  std::string_view accepted = {};  // values for `only`, with spaces between
};

std::span<const PeerFlag> peer_flag_table();

// The table as hidden rows. A flag without effect adds its spelling to `ignored`, which must outlive the
// rows.
std::vector<Flag> peer_flags(std::vector<std::string>& ignored);

// Flags of `vllm bench serve`, likewise.
std::vector<Flag> vllm_bench_flags(std::vector<std::string>& ignored);

// invalid_argument: a flag in `ignored` that is without effect on the CPU alone.
Status check_ignored_on_device(const std::vector<std::string>& ignored);

// "no effect here: --no-mmap, --mlock"; empty where nothing was ignored.
std::string ignored_flags_text(const std::vector<std::string>& ignored);

}  // namespace pagoda
