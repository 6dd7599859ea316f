#pragma once
// The words of a command line in the spelling that the rows have. Knows names only, and no meanings.
#include <string>
#include <vector>

#include "cli/flags/flag.h"

namespace pagoda {

// --max_num_seqs becomes --max-num-seqs, as vLLM takes both. -np becomes --np where a row has that name, as
// llama-server's names of several letters have one dash. --NAME.KEY VALUE and --NAME.A.B=VALUE become one
// --NAME with a JSON object, as for vLLM.
std::vector<std::string> in_declared_spelling(const Command& root, std::vector<std::string> arguments);

}  // namespace pagoda
