#pragma once
// DeviceDecoder: the program of a decoder on a device, for models that check_support() takes: weights,
// activations and launches, in one stream. Not here: who owns KV blocks, whose rows there are, sampling.
// Invariant: every row's result depends on its own sequence alone, never on the batch or its chunks.
// Errors: the device's. Threads: the device's caller.
#include <memory>
#include <string_view>

#include "device/device_array.h"
#include "device/kernel_launches.h"
#include "device_runner/device_weights.h"
#include "kernels/paged_attention.h"
#include "models/model_info.h"

namespace pagoda::device_runner {

// Pointers are the device's. Row r of the batch has token ids[r] at positions[r] of sequence sequences[r],
// whose line of block_tables has its blocks; blocks[r] is the block of the row's own slot.
struct DeviceBatch {
  std::int64_t rows = 0;
  const std::int32_t *ids = nullptr, *positions = nullptr, *sequences = nullptr, *blocks = nullptr;
  const std::int32_t* block_tables = nullptr;  // [sequences, table_width]
  std::int32_t table_width = 0;
  // The rows by how they are computed, which changes no bit: few rows of long contexts, and many of a prompt.
  const std::int32_t *split_rows = nullptr, *whole_rows = nullptr;
  std::int64_t num_split_rows = 0, num_whole_rows = 0;
  // With rows_of_tile(): the whole rows in tiles, each of one sequence. [tiles + 1]: their first rows.
  const std::int32_t* tiles = nullptr;
  std::int64_t num_tiles = 0;
  std::int32_t splits = 0;      // splits of the longest context of split_rows
  std::int64_t all_splits = 0;  // the sum over those rows
  const std::int32_t* output_rows = nullptr;
  std::int64_t num_output_rows = 0;
};

// Addresses of K and V: block b at data + b * block_stride, bytes; layer l of it layer_stride * l further.
struct DeviceCache {
  std::byte* data = nullptr;
  std::int64_t block_stride = 0, layer_stride = 0;
  std::int32_t block_size = 0;
};

// The kernels of attention. tiles: products of bf16 tiles, over a bf16 cache
// (device/kernels/attention_tiles.cuh). automatic: those, where the model's heads and the cache are made for
// them.
enum class AttentionKernels { automatic, plain, tiles };

// The kernel of matrix products. tiles: products of bf16 tiles (device/kernels/linear_tiles.cuh), for
// Options::weights of bf16, where a matrix's rows are made for them, and else the plain kernel; automatic:
// those, or the plain kernel for weights of f32. Bits of both are the same in every batch. library: the
// device's (Device::multiply) for matrices of bf16, over inputs rounded to bf16; bits depend on the number of
// rows.
enum class MatrixProducts { automatic, tiles, plain, library };

class DeviceDecoder {
 public:
  struct Options {
    device::Element weights = device::Element::bf16, cache = device::Element::bf16;
    std::int32_t max_batched_tokens = 0, max_num_seqs = 0, block_size = 16;
    MatrixProducts products = MatrixProducts::automatic;
    AttentionKernels attention = AttentionKernels::automatic;
    std::int32_t max_context = 0;  // tokens of a sequence; 0: as many as the model was made for
  };
  // unimplemented: the model has what the device's program has not, or not what tiles need that are asked
  // for.
  static Result<std::unique_ptr<DeviceDecoder>> load(device::Device& device, device::StreamId stream,
                                                     const ModelSource& source, const ModelInfo& model,
                                                     const Options& options);

  const DecoderConfig& config() const { return config_; }
  const DeviceWeights& weights() const { return weights_; }
  std::int32_t max_context() const { return max_context_; }
  // How many rows of a sequence make a tile of attention; 0: the plain kernels are used.
  std::int32_t rows_of_tile() const { return rows_of_tile_; }
  std::int64_t activation_bytes() const { return activation_bytes_; }
  std::int64_t block_bytes() const;  // a KV block, all layers, packed
  KvLayout kv_layout() const;        // the same

  // Enqueues a batch over the cache.
  Status forward(const DeviceBatch& batch, const DeviceCache& cache);
  // Enqueues logits of output rows [first, first + count) of the last forward into out [count, vocabulary].
  Status logits(std::int64_t first, std::int64_t count, float* out);

 private:
  DeviceDecoder(device::Device& device, device::StreamId stream, const Options& options)
      : device_(device), stream_(stream), launches_(device, stream), options_(options) {}
  Status choose_attention();
  Status reserve(device::StreamId stream);
  Status fill_cos_sin(device::StreamId stream);
  template <class T>
  Status room(device::DeviceArray<T>& array, std::int64_t count, std::string_view name);
  Status embed(const DeviceBatch& batch);
  Status layer(const DeviceBatch& batch, std::size_t index, const DeviceCache& cache);
  Status mix(const DeviceBatch& batch, std::size_t index, const DeviceCache& cache, const float* x);
  Status normalize_heads(const AttentionConfig& config, const NormConfig& norm, const DeviceLayer& layer,
                         std::int64_t rows);
  Status attend(const DeviceBatch& batch, device::AttentionArgs args);
  Status feed_forward(const DeviceDense& dense, const DenseFeedForwardConfig& config, const float* x,
                      std::int64_t rows, float* y, bool accumulate);
  // y = (accumulate: y +) what the experts that each row has chosen, and the shared one, make of x.
  Status mixture(const DeviceMixture& weights, const MixtureConfig& config, const float* x, std::int64_t rows,
                 float* y, bool accumulate);
  // residual = sum(residual + scale * branch(half)); `half` is told where to put, or to add, what it gives.
  template <class Half>
  Status add_sublayer(const LayerConfig& layer, const NormPlaces& places, const DeviceNorms& norms,
                      std::int64_t rows, const Half& half);
  Status norm(const float* x, const DeviceNorm& weights, const NormConfig& config, std::int64_t rows,
              float* out);
  // Whether inputs are rounded to bf16, in rounded_.
  bool rounds() const {
    return options_.weights == device::Element::bf16 && options_.products != MatrixProducts::plain;
  }
  // `stride`: from a row of y to the next; 0: matrix.n.
  Status multiply(const DeviceMatrix& matrix, const float* x, std::int64_t rows, float* y,
                  bool accumulate = false, std::int32_t stride = 0);
  // A product of experts, with all else than the matrix in `args`.
  Status multiply_pairs(const DeviceMatrix& matrix, device::GroupedLinearArgs args);
  device::CacheArgs cache_of_layer(std::size_t index, const DeviceCache& cache) const;

  device::Device& device_;
  device::StreamId stream_;
  device::KernelLaunches launches_;
  Options options_;
  DecoderConfig config_;
  DeviceWeights weights_;
  std::int32_t max_context_ = 0, rows_of_tile_ = 0;
  std::int64_t activation_bytes_ = 0, num_output_rows_ = 0;
  std::vector<device::DeviceArray<float>> cos_sin_;                // one for each rotation
  device::DeviceArray<float> residual_, normed_, qkv_, mixed_;     // [tokens, …]
  device::DeviceArray<float> gate_up_, inner_, partial_, output_;  // output_: [tokens, hidden]
  device::DeviceArray<std::uint16_t> rounded_;                     // rounded inputs of the library's products
  device::DeviceArray<float> branch_, before_;  // [tokens, hidden], where a layer has need of them
  // Mixtures: logits of experts, weights of choices, outputs of chosen experts and of shared ones, shares.
  device::DeviceArray<float> router_logits_, choice_weights_, expert_rows_, shared_rows_, shares_;
  device::DeviceArray<std::int32_t> chosen_, slots_;
  device::DeviceArray<device::TileOfPairs> tiles_;
};

}  // namespace pagoda::device_runner
