// Any bytes as the body of each route of each protocol; the first byte chooses the route, the second how the
// answer comes. Whatever is accepted keeps to the context and is answered, whole or as a stream.
// links: server
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "server/in_process.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pagoda;
  if (size < 2) return 0;
  static auto* const server = new InProcess;
  static const auto* const routes = [] {
    auto* all = new std::vector<Route>(server->routes());
    std::erase_if(*all, [](const Route& route) { return route.protocol == nullptr; });
    return all;
  }();
  // The second byte's last bits also say what the model makes: text, embeddings or scores.
  const int kind = data[1] >> 6;
  server->serve(kind == 2   ? Serves::embeddings
                : kind == 3 ? Serves::scores
                            : Serves::text,
                (data[1] & 1) != 0);
  std::string body(reinterpret_cast<const char*>(data + 2), size - 2);
  std::string parameter = body.substr(0, 64);
  const InProcess::Outcome outcome = server->answer((*routes)[data[0] % routes->size()], std::move(body),
                                                    std::move(parameter), data[1] & 63);
  if (!outcome.wrong.empty()) {
    std::fprintf(stderr, "%s\n", outcome.wrong.c_str());
    std::abort();
  }
  return 0;
}
