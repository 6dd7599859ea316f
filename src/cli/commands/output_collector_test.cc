#include "cli/commands/output_collector.h"

#include <gtest/gtest.h>

#include <optional>
#include <thread>

namespace pagoda {
namespace {

RequestOutput output_of(std::uint64_t id) {
  RequestOutput output;
  output.id = RequestId{id};
  return output;
}

TEST(OutputCollector, GivesAllInTheOrderTheyCame) {
  OutputCollector collector;
  const auto first = collector.make_sink(), second = collector.make_sink();
  std::thread engine([&] {
    for (std::uint64_t i = 0; i < 1000; ++i) (i % 2 == 0 ? first : second)->on_output(output_of(i));
  });
  std::uint64_t next = 0;
  TimeNs last = 0;
  while (next < 1000) {
    for (const OutputCollector::Item& item : collector.take()) {
      EXPECT_EQ(item.output.id, RequestId{next++});
      EXPECT_GE(item.time, last);
      last = item.time;
    }
  }
  engine.join();
}

TEST(OutputCollector, MayEndBeforeTheRequests) {
  std::optional<OutputCollector> collector(std::in_place);
  const auto sink = collector->make_sink();
  sink->on_output(output_of(1));
  EXPECT_EQ(collector->take().size(), 1u);
  collector.reset();
  sink->on_output(output_of(2));  // a request still running when its caller has given up
}

}  // namespace
}  // namespace pagoda
