// Goal: no body that a client may send ends the process, throws, or is answered as a fault of ours. Method: a
// valid body for every JSON route of every protocol and of the server; each of its nodes is deleted, emptied,
// given twice or replaced by a value of another kind, under two templates. tests/fuzz/route_bodies_fuzz.cc
// does several at once.
#include <gtest/gtest.h>
#include <unistd.h>

#include <boost/json/serialize.hpp>
#include <csignal>
#include <cstring>
#include <string>

#include "server/body_mutation.h"
#include "server/sample_bodies.h"

namespace pagoda {
namespace {

// The body being answered, printed if the process ends.
std::string* current = nullptr;
void tell_current(int) {
  (void)!write(STDERR_FILENO, current->data(), current->size());
  std::signal(SIGABRT, SIG_DFL);
}

std::string_view wanted(const Route& route) {
  return route.facts.body == BodyForm::json ? route.facts.path : std::string_view();
}

TEST(RouteBodies, EveryRouteThatTakesJsonHasASample) {
  InProcess server;
  for (const Route& route : server.routes()) {
    if (wanted(route).empty()) continue;
    EXPECT_TRUE(std::ranges::any_of(
        kSampleBodies, [&](const SampleBody& sample) { return sample.path == route.facts.path; }))
        << route.facts.method << " " << route.facts.path << " has no body in sample_bodies.h";
  }
  for (const SampleBody& sample : kSampleBodies)
    EXPECT_TRUE(std::ranges::any_of(server.routes(), [&](const Route& route) {
      return wanted(route) == sample.path;
    })) << sample.path;
}

TEST(RouteBodies, NoChangeOfOneNodeIsAnsweredAsAFaultOfOurs) {
  std::string now;
  current = &now;
  std::signal(SIGABRT, tell_current);
  InProcess server;
  const ChatTemplate agents = *ChatTemplate::parse(std::string(kAgentTemplate));
  const std::vector<Route> routes = server.routes();
  int answered = 0, accepted = 0;
  for (const bool for_agents : {false, true}) {
    if (for_agents) server.use_template(&agents);
    for (const Route& route : routes) {
      for (const SampleBody& sample : kSampleBodies) {
        if (wanted(route) != sample.path) continue;
        server.serve(sample.serves);
        const boost::json::value body = boost::json::parse(sample.body);
        const InProcess::Outcome valid = server.answer(route, boost::json::serialize(body));
        EXPECT_TRUE(valid.wrong.empty() && (valid.refused.ok() || for_agents))
            << sample.path << " " << valid.wrong << valid.refused.message() << "\n"
            << sample.body;
        for (std::size_t node = 0; node < count_nodes(body); ++node) {
          for (std::size_t change = 0; change < num_changes(); ++change) {
            boost::json::value changed = body;
            std::size_t at = node;
            if (!change_node(changed, at, change)) continue;
            std::string text = boost::json::serialize(changed);
            now = concat("\n", sample.path, " ", text, "\n");
            const InProcess::Outcome outcome =
                server.answer(route, std::move(text), {}, static_cast<unsigned>(node));
            EXPECT_EQ(outcome.wrong, "") << now;
            ++answered;
            accepted += outcome.refused.ok() ? 1 : 0;
          }
        }
      }
    }
  }
  std::signal(SIGABRT, SIG_DFL);
  EXPECT_GT(accepted, answered / 10);
  std::printf("%d bodies, %d accepted\n", answered, accepted);
}

}  // namespace
}  // namespace pagoda
