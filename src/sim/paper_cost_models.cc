// The paper's four servers with the step times of the paper's own implementation: the roofline of the same
// machine (named_cost_models.cc) plus the time beyond it that the paper's Fig. 13 implies.
//
// Little's law: requests in the batch = answered tokens a second x seconds of a step. OPT-13B, vLLM:
//                                   batch    req/s x mean answer    a step    roofline of that step, of which
//                                                                             linear  head  prompts  K/V
//     ShareGPT                      30.42    2 x 337.99             45.0 ms   18.0    0.4   0.0      10.1
//     Alpaca                        132.44   30 x 58.45             75.5 ms   20.2    0.4   0.0      7.3
// K/V: the mean context of a decoded token, sum(answer x (prompt + answer / 2)) / sum(answer) of the
// workload's lengths (459 and 76 tokens), through paged reads (below). The rest, 16.6 and 47.7 ms, is the
// overhead of a step and of each sequence in it: 7.3 ms and 0.305 ms. These two numbers come from two bars of
// one figure, so those two bars are inputs; everything else that these models say is a prediction.
//
// The overhead of a step is per layer (kernels are started, and Python runs, a layer at a time): 7.3 ms / 40.
// The overhead of a sequence is split evenly between its request and itself: the two bars have one sequence
// per request and cannot separate them, and the implementation has work of both kinds (sampling by request,
// block tables by sequence). This is an assumption, not a fit; it matters for parallel sampling and beams
// only.
//
// Paged reads: the paper's kernel is 20 to 26 % slower than one that reads contiguous memory, at blocks of 16
// (Fig. 18a): 1 / 1.23. Smaller blocks are derived from its thread layout (the artifact's
// attention_kernels.cu: a warp per block, 32 / size threads per token for keys, loads of at most 16 bytes):
// with heads of 128 a warp needs 1.5, 2.5, 5, 6 and 8 load instructions per token at sizes 16, 8, 4, 2 and 1.
// Bytes read per second are assumed to be inversely proportional to that, and size 16 to be sufficient.
// Assumption: only bytes in flight limit the small sizes.
//
// Bus: as in named_cost_models.cc, 25.6 GB/s; nvbandwidth on an A100-SXM4-40GB measures 25.1
// (https://github.com/NVIDIA/nvbandwidth, issue 42). The paper's cloud machines seem to have reached half of
// it (Fig. 19a), but no public measurement of them is known to us, and Fig. 19a cannot be its own source.
#include <array>

#include "base/check.h"
#include "base/strings.h"
#include "sim/cost_model.h"

namespace pagoda {
namespace {

struct Server {
  std::string_view name, roofline;
};
constexpr std::array kServers = {
    Server{"paper/opt-13b", "a100-40gb/opt-13b/tp1"},
    Server{"paper/opt-66b", "a100-40gb/opt-66b/tp4"},
    Server{"paper/opt-175b", "a100-80gb/opt-175b/tp8"},
    Server{"paper/llama-13b", "a100-40gb/llama-13b/tp1"},
};

constexpr double kLayerSeconds = 7.3e-3 / 40, kRequestSeconds = 0.305e-3 / 2, kSequenceSeconds = 0.305e-3 / 2;
constexpr double kPaged = 1 / 1.23;

}  // namespace

std::optional<CostModel> paper_cost_model(std::string_view name) {
  for (const Server& server : kServers) {
    if (server.name != name) continue;
    const auto roofline = named_cost_model(server.roofline);
    CHECK(roofline);
    CostModel out = *roofline;
    out.name = name;
    out.step_overhead_s = out.num_layers * kLayerSeconds;
    out.request_overhead_s = kRequestSeconds;
    out.sequence_overhead_s = kSequenceSeconds;
    out.paged_read_efficiency = {{1, kPaged * 1.5 / 8},
                                 {2, kPaged * 1.5 / 6},
                                 {4, kPaged * 1.5 / 5},
                                 {8, kPaged * 1.5 / 2.5},
                                 {16, kPaged}};
    return out;
  }
  return std::nullopt;
}

std::vector<std::string> paper_cost_models() {
  std::vector<std::string> out;
  for (const Server& server : kServers) out.emplace_back(server.name);
  return out;
}

}  // namespace pagoda
