#include "server/protocols.h"

#include <algorithm>

#include "api/anthropic/anthropic_protocol.h"
#include "api/llamacpp/llamacpp_protocol.h"
#include "api/lmstudio/lmstudio_protocol.h"
#include "api/ollama/ollama_protocol.h"
#include "api/openai/openai_protocol.h"
#include "api/pooling/pooling_protocol.h"
#include "api/responses/responses_protocol.h"
#include "api/tgi/tgi_protocol.h"
#include "base/strings.h"

namespace pagoda {

std::vector<const Protocol*> all_protocols() {
  return {&openai_protocol(),   &responses_protocol(), &anthropic_protocol(), &ollama_protocol(),
          &lmstudio_protocol(), &llamacpp_protocol(),  &tgi_protocol(),       &pooling_protocol()};
}

FoundRoute find_api_route(const std::vector<const Protocol*>& protocols, std::string_view method,
                          std::string_view path) {
  FoundRoute with_braces;
  for (const Protocol* protocol : protocols) {
    for (const ApiRoute& row : protocol->routes) {
      if (row.facts.method != method) continue;
      const std::string_view known = row.facts.path;
      if (known == path) return {.protocol = protocol, .row = &row};
      const std::string_view prefix = known.ends_with('}') ? known.substr(0, known.rfind('{')) : "";
      if (!prefix.empty() && path.starts_with(prefix))
        with_braces = {
            .protocol = protocol, .row = &row, .parameter = std::string(path.substr(prefix.size()))};
    }
  }
  return with_braces;
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
    return invalid_argument(concat("--api: there is no API '", name, "'; the APIs are ", known));
  }
  return out;
}

}  // namespace pagoda
