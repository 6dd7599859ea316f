// The named cost models: GPUs by models by tensor-parallel sizes, from two tables of published constants.
// Nothing here is fitted to a result.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/strings.h"
#include "sim/cost_model.h"

namespace pagoda {
namespace {

// From NVIDIA's data sheets: dense 16-bit tensor-core rate, memory bandwidth, NVLink in one direction (half
// of the advertised total), PCIe x16 in one direction. A100: "NVIDIA A100 Tensor Core GPU" (40 GB SXM: 1,555
// GB/s; 80 GB SXM: 2,039 GB/s; 312 TFLOPS; NVLink 600 GB/s; PCIe 4). H100 SXM and H200: 989 TFLOPS, 3.35
// and 4.8 TB/s, NVLink 900 GB/s, PCIe 5. L4: 121 TFLOPS, 300 GB/s, PCIe 4, no NVLink.
struct Gpu {
  std::string_view name;
  double flops, memory_bytes_per_s, link_bytes_per_s, bus_bytes_per_s, memory_bytes;
};
constexpr std::array kGpus = {
    Gpu{"a100-40gb", 312e12, 1555e9, 300e9, 32e9, 40e9}, Gpu{"a100-80gb", 312e12, 2039e9, 300e9, 32e9, 80e9},
    Gpu{"h100", 989e12, 3350e9, 450e9, 64e9, 80e9},      Gpu{"h200", 989e12, 4800e9, 450e9, 64e9, 141e9},
    Gpu{"l4", 121e12, 300e9, 32e9, 32e9, 24e9},
};

// Fractions of the data sheet's numbers that programs reach. Memory: 90 %, as streaming kernels measure on
// A100 (Deakin et al., BabelStream). Tensor cores: 70 %, as cuBLAS reaches in large half-precision products
// at the sheet's power limit. Bus: 80 %, as pinned copies measure. A kernel launch takes about 5 us when the
// host paces the device, and a decoder layer is about 10 kernels. All-reduces: the numbers that NVIDIA's
// library uses on A100s when it chooses an algorithm (NCCL, src/graph/tuning.cc, version 2.10; a ring by
// LL128): 10 us, 1.9 us for each of its 2 (ranks - 1) steps, and 0.92 of 235 GB/s.
constexpr double kOfMemory = 0.90, kOfFlops = 0.70, kOfBus = 0.80, kOfLink = 0.92 * 235 / 300;
constexpr double kLaunchSeconds = 5e-6, kKernelsPerLayer = 10;
constexpr double kAllReduceSeconds = 10e-6, kRingStepSeconds = 1.9e-6;
// Swapping a block copies its keys and its values in each layer; the host has to start each copy.
constexpr double kCopySeconds = 2e-6;
// Mapping K/V pages: the times of CUDA's calls for 2 MiB pages on an A100 from vAttention (arXiv 2405.04437,
// Table 3), in us: cuMemMap 2, cuMemSetAccess 38, cuMemUnmap 34. Each page has its own calls, because
// vAttention creates pages that way. Pages are created at start, as there. Quoted second-hand: the table
// itself was not accessible. This is host time; other GPUs are assumed to be the same.
constexpr double kMapPageBytes = 2 << 20, kMapPageSeconds = 40e-6, kUnmapPageSeconds = 34e-6;

// From the models' config.json: OPT (Zhang et al. 2022, table 1), LLaMA (Touvron et al. 2023), Llama 2 and 3,
// Qwen2.5. ffn: widths of the feed-forward matrices, 2 for OPT, 3 for the gated ones.
struct Model {
  std::string_view name;
  std::int32_t layers, hidden, heads, kv_heads, head_size, ffn, ffn_matrices, vocab, max_model_len;
};
constexpr std::array kModels = {
    Model{"opt-125m", 12, 768, 12, 12, 64, 3072, 2, 50272, 2048},
    Model{"opt-1.3b", 24, 2048, 32, 32, 64, 8192, 2, 50272, 2048},
    Model{"opt-6.7b", 32, 4096, 32, 32, 128, 16384, 2, 50272, 2048},
    Model{"opt-13b", 40, 5120, 40, 40, 128, 20480, 2, 50272, 2048},
    Model{"opt-30b", 48, 7168, 56, 56, 128, 28672, 2, 50272, 2048},
    Model{"opt-66b", 64, 9216, 72, 72, 128, 36864, 2, 50272, 2048},
    Model{"opt-175b", 96, 12288, 96, 96, 128, 49152, 2, 50272, 2048},
    Model{"llama-7b", 32, 4096, 32, 32, 128, 11008, 3, 32000, 2048},
    Model{"llama-13b", 40, 5120, 40, 40, 128, 13824, 3, 32000, 2048},
    Model{"llama-2-7b", 32, 4096, 32, 32, 128, 11008, 3, 32000, 4096},
    Model{"llama-2-13b", 40, 5120, 40, 40, 128, 13824, 3, 32000, 4096},
    Model{"llama-2-70b", 80, 8192, 64, 8, 128, 28672, 3, 32000, 4096},
    Model{"llama-3-8b", 32, 4096, 32, 8, 128, 14336, 3, 128256, 8192},
    Model{"llama-3-70b", 80, 8192, 64, 8, 128, 28672, 3, 128256, 8192},
    Model{"qwen2.5-7b", 28, 3584, 28, 4, 128, 18944, 3, 152064, 32768},
};

// For the paper's servers, the KV cache in token slots from its Table 1. All other machines get 90 % of the
// memory, less the weights and 2 GB per GPU for activations.
struct Slots {
  std::string_view gpu, model;
  std::int32_t ranks;
  double slots;
};
constexpr std::array kSlots = {
    Slots{"a100-40gb", "opt-13b", 1, 15'700},
    Slots{"a100-40gb", "llama-13b", 1, 15'700},
    Slots{"a100-40gb", "opt-66b", 4, 9'700},
    Slots{"a100-80gb", "opt-175b", 8, 60'100},
};
constexpr double kMemoryShare = 0.9, kActivations = 2e9;

constexpr std::int32_t kMaxRanks = 64;

double kv_cache_bytes(const Gpu& gpu, const Model& model, std::int32_t ranks, double kv_bytes_per_token,
                      double weight_bytes) {
  for (const Slots& entry : kSlots) {
    if (entry.gpu == gpu.name && entry.model == model.name && entry.ranks == ranks)
      return entry.slots * kv_bytes_per_token;
  }
  return ranks * (kMemoryShare * gpu.memory_bytes - kActivations) - weight_bytes;
}

template <class Table>
auto find_named(const Table& table, std::string_view name) {
  return std::ranges::find(table, name, [](const auto& entry) { return entry.name; });
}

template <class Table>
std::vector<std::string> names_of(const Table& table) {
  std::vector<std::string> out;
  for (const auto& entry : table) out.emplace_back(entry.name);
  return out;
}

std::string joined(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ", ") + name;
  return out;
}

}  // namespace

std::vector<std::string> cost_model_gpus() { return names_of(kGpus); }
std::vector<std::string> cost_model_models() { return names_of(kModels); }

Result<CostModel> named_cost_model(std::string_view name) {
  const auto unknown = [&] {
    return not_found(concat("there is no cost model '", name, "': a name is GPU/MODEL/tpN with GPU one of ",
                            joined(cost_model_gpus()), " and MODEL one of ", joined(cost_model_models()),
                            "; or one of ", joined(paper_cost_models())));
  };
  if (auto paper = paper_cost_model(name)) return *std::move(paper);
  const std::size_t first = name.find('/'), second = name.rfind('/');
  if (first == std::string_view::npos || second == first) return unknown();
  const auto gpu = find_named(kGpus, name.substr(0, first));
  const auto model = find_named(kModels, name.substr(first + 1, second - first - 1));
  const std::string_view tp = name.substr(second + 1);
  if (gpu == kGpus.end() || model == kModels.end() || !tp.starts_with("tp")) return unknown();
  std::int32_t ranks = 0;
  const auto [end, error] = std::from_chars(tp.data() + 2, tp.data() + tp.size(), ranks);
  if (error != std::errc() || end != tp.data() + tp.size() || ranks < 1 || ranks > kMaxRanks)
    return unknown();
  if (model->heads % ranks != 0)
    return invalid_argument(
        concat("cost model '", name, "': ", model->heads, " heads cannot be split among ", ranks, " ranks"));

  CostModel out;
  out.name = name;
  out.num_layers = model->layers;
  out.hidden_size = model->hidden;
  out.vocab_size = model->vocab;
  out.max_model_len = model->max_model_len;
  const double width = static_cast<double>(model->heads) * model->head_size;
  const double kv_width = static_cast<double>(model->kv_heads) * model->head_size;
  const double attention = 2 * width * model->hidden + 2 * kv_width * model->hidden;
  const double feed_forward = static_cast<double>(model->ffn_matrices) * model->ffn * model->hidden;
  out.parameters = model->layers * (attention + feed_forward);
  out.head_parameters = static_cast<double>(model->vocab) * model->hidden;
  out.bytes_per_parameter = 2;
  out.attention_width = width;
  out.kv_bytes_per_token = 2 * kv_width * model->layers * 2;
  const double weights = (out.parameters + out.head_parameters) * out.bytes_per_parameter;
  out.kv_cache_bytes = kv_cache_bytes(*gpu, *model, ranks, out.kv_bytes_per_token, weights);
  if (out.kv_cache_bytes < out.kv_bytes_per_token * 256)
    return invalid_argument(concat("cost model '", name, "': the weights of ", fixed(weights / 1e9, 1),
                                   " GB leave no memory for a KV cache"));
  out.tensor_parallel_size = ranks;
  out.memory_bytes_per_s = out.attention_bytes_per_s = kOfMemory * gpu->memory_bytes_per_s;
  out.flops_per_s = out.attention_flops_per_s = kOfFlops * gpu->flops;
  out.link_bytes_per_s = kOfLink * gpu->link_bytes_per_s;
  out.link_latency_s = ranks > 1 ? kAllReduceSeconds + 2 * (ranks - 1) * kRingStepSeconds : 0;
  out.swap_bytes_per_s = kOfBus * gpu->bus_bytes_per_s;
  out.swap_block_s = 2 * model->layers * kCopySeconds;
  out.map_page_bytes = kMapPageBytes;
  out.map_page_s = kMapPageSeconds;
  out.unmap_page_s = kUnmapPageSeconds;
  out.computes_padding = true;  // as FasterTransformer does (paper §6.1)
  out.step_overhead_s = model->layers * kKernelsPerLayer * kLaunchSeconds;
  return out;
}

}  // namespace pagoda
