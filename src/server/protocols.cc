#include "server/protocols.h"

#include <algorithm>

#include "api/anthropic/anthropic_protocol.h"
#include "api/llamacpp/llamacpp_protocol.h"
#include "api/ollama/ollama_protocol.h"
#include "api/openai/openai_protocol.h"
#include "api/pooling/pooling_protocol.h"
#include "api/responses/responses_protocol.h"
#include "base/strings.h"

namespace pagoda {

std::vector<const Protocol*> all_protocols() {
  return {&openai_protocol(), &responses_protocol(), &anthropic_protocol(),
          &ollama_protocol(), &llamacpp_protocol(),  &pooling_protocol()};
}

Result<std::vector<const Protocol*>> protocols_named(const std::vector<std::string>& names) {
  const std::vector<const Protocol*> all = all_protocols();
  if (names.empty()) return all;
  std::vector<const Protocol*> out;
  for (const Protocol* protocol : all)
    if (std::ranges::find(names, protocol->name) != names.end()) out.push_back(protocol);
  for (const std::string& name : names) {
    if (std::ranges::find(all, name, &Protocol::name) != all.end()) continue;
    std::string known;
    for (const Protocol* protocol : all) known.append(known.empty() ? "" : ", ").append(protocol->name);
    return invalid_argument(concat("--api: there is no protocol '", name, "'; there are ", known));
  }
  return out;
}

}  // namespace pagoda
