// A valid body of each JSON route with up to eight of its nodes changed: the first byte chooses the body, the
// second how the answer comes and which template renders it, then three bytes for each change. Bytes of no
// structure are protocol_body_fuzz.cc's.
// links: server
#include <boost/json/serialize.hpp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "server/body_mutation.h"
#include "server/sample_bodies.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pagoda;
  if (size < 2) return 0;
  static auto* const server = new InProcess;
  static const auto* const routes = new std::vector<Route>(server->routes());
  static const auto* const plain = new ChatTemplate(
      *ChatTemplate::parse("{% for m in messages %}{{ m.role }}{{ m.content }}{% endfor %}"));
  static const auto* const agents = new ChatTemplate(*ChatTemplate::parse(std::string(kAgentTemplate)));
  const SampleBody& sample = kSampleBodies[data[0] % std::size(kSampleBodies)];
  server->serve(sample.serves);
  server->use_template((data[1] & 64) != 0 ? agents : plain);
  boost::json::value body = boost::json::parse(sample.body);
  for (std::size_t at = 2; at + 3 <= size && at < 2 + 8 * 3; at += 3) {
    std::size_t node = (std::size_t{data[at]} << 8 | data[at + 1]) % count_nodes(body);
    (void)change_node(body, node, data[at + 2] % num_changes());
  }
  for (const Route& route : *routes) {
    if (route.facts.body != BodyForm::json || route.facts.path != sample.path) continue;
    const InProcess::Outcome outcome = server->answer(route, boost::json::serialize(body), {}, data[1] & 63);
    if (outcome.wrong.empty()) continue;
    std::fprintf(stderr, "%s\n", outcome.wrong.c_str());
    std::abort();
  }
  return 0;
}
