#include "engine/adapter_metrics.h"

#include <gtest/gtest.h>

#include "engine/engine_test_support.h"

namespace pagoda {
namespace {

using fake::make_request;
using fake::Options;
using fake::Rig;

TEST(AdapterMetrics, NamesWhatRunsAndWhatWaits) {
  Options options;
  options.engine.max_num_seqs = 2;
  Rig rig(options);
  AdapterMetrics metrics(rig.metrics, 3);
  rig.core->add_observer(metrics);
  const auto labels = [&] {
    const std::string text = rig.metrics.expose("vllm", "");
    const std::size_t begin = text.find("vllm:lora_requests_info{") + 24;
    return text.substr(begin, text.find('}', begin) - begin);
  };
  const auto wanted = [](const std::string& waiting, const std::string& running) {
    return concat("max_lora=\"3\",waiting_lora_adapters=\"", waiting, "\",running_lora_adapters=\"", running,
                  "\"");
  };
  EXPECT_EQ(labels(), wanted("", ""));
  for (std::uint64_t id = 1; id <= 5; ++id) {
    Request request = make_request(id, {1, 2}, 5);
    request.adapter = fake::adapter(std::array{1, 0, 2, 2, 1}[id - 1]);
    rig.submit(std::move(request));
  }
  EXPECT_EQ(labels(), wanted("adapter 1,adapter 2", ""));
  rig.step();
  EXPECT_EQ(labels(), wanted("adapter 1,adapter 2", "adapter 1")) << "requests 1 and 2 run";
  rig.core->abort(RequestId{5});
  EXPECT_EQ(labels(), wanted("adapter 2", "adapter 1"));
  rig.run_all();
  EXPECT_EQ(labels(), wanted("", ""));
  rig.core->remove_observer(metrics);
}

}  // namespace
}  // namespace pagoda
