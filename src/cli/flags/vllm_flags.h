#pragma once
// vLLM's flags that mean nothing here. Accepted with a warning where leaving them out changes no result, so
// that a vLLM command line works; refused where going on would break what they promise.
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace pagoda {

// Hidden from --help. A flag that was given adds its line to `warnings`.
void add_vllm_flags(CLI::App& app, std::vector<std::string>& warnings);

}  // namespace pagoda
