#pragma once
// Rewrites the arguments of a command line to the spelling of the rows. Uses only names, not meanings.
#include <string>
#include <vector>

#include "cli/flags/flag.h"

namespace pagoda {

// --max_num_seqs becomes --max-num-seqs; vLLM accepts both. -np becomes --np if a row has that name, because
// llama-server uses a single dash for names of several letters. --NAME.KEY VALUE and --NAME.A.B=VALUE are
// combined into one --NAME with a JSON object, as in vLLM.
std::vector<std::string> in_declared_spelling(const Command& root, std::vector<std::string> arguments);

}  // namespace pagoda
