#pragma once
// Table of the flags of vLLM and llama-server that this program does not have, so that command lines copied
// from there work. A flag that cannot change answers is accepted and named once in the log. A flag that would
// change answers, or promises a missing feature, is refused with a reason. Flags with a meaning here are
// ordinary rows, under the peer's name or with it as an alias. Rows, docs/flags.md and tests are derived from
// the table.
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/flags/flag.h"

namespace pagoda {

struct PeerFlag {
  enum class Peer { vllm, llama_server };
  enum class Rule {
    no_effect,  // without effect, for any value
    of_cpu,     // without effect on the CPU; refused on devices, where it promises a missing feature
    only,       // values in `accepted` match the behaviour here; others are refused
    refused,
  };
  Peer peer;
  std::string_view names;  // without dashes, separated by spaces; the first is the row's name
  FlagValue::Shape shape;
  Rule rule = Rule::no_effect;
  std::string_view why = {};       // reason for a refusal
  std::string_view accepted = {};  // values for `only`, separated by spaces
};

std::span<const PeerFlag> peer_flag_table();

// The table as hidden rows. A flag without effect adds its spelling to `ignored`, which must outlive the
// rows.
std::vector<Flag> peer_flags(std::vector<std::string>& ignored);

// The same for flags of `vllm bench serve`.
std::vector<Flag> vllm_bench_flags(std::vector<std::string>& ignored);

// invalid_argument: `ignored` contains a flag that is without effect only on the CPU.
Status check_ignored_on_device(const std::vector<std::string>& ignored);

// Returns "no effect here: --no-mmap, --mlock"; empty if nothing was ignored.
std::string ignored_flags_text(const std::vector<std::string>& ignored);

}  // namespace pagoda
