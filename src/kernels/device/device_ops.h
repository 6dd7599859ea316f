#pragma once
// DeviceOps: the state shared by the ops of a context on a device: the device and its stream, memory for
// weights and activations, the image of the step, and the first error, which ops cannot return
// (take_status()). Ops only launch: nothing waits inside a step, and no decision depends on computed values.
// Scratch for intermediate results is reserved in advance; it grows if a step needs more than any before. Not
// here: the ops (ops.h), the KV cache, swaps and copies. Threads: the device's caller. Owner: the runner; it
// must outlive the model.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "device/device_array.h"
#include "device/kernel_launches.h"
#include "device/layer_launches.h"
#include "device/step_arena.h"
#include "kernels/attention_input.h"
#include "kernels/device/device_part.h"
#include "kernels/device/step_bucket.h"
#include "kernels/device/weight_upload.h"
#include "kernels/linear.h"
#include "kernels/paged_attention.h"
#include "kernels/sequence_state.h"
#include "tensor/tensor_view.h"

namespace pagoda {

class DeviceAdapters;

// The kernels for attention. tiles: products of bf16 tiles, over a bf16 cache
// (device/kernels/attention_tiles.cuh). automatic: tiles if they support a layer's heads and the cache.
// warpgroups: likewise, with prompts by warpgroups if the device and a layer's heads support it
// (device/kernels/attention_bulk.cuh), with the same bits; choices.def determines whether automatic uses
// them, too.
enum class AttentionKernels { automatic, plain, tiles, warpgroups };

// The kernel for matrix products. tiles: products of bf16 tiles (device/kernels/linear_tiles.cuh) for weights
// in bf16 whose rows support them; otherwise the plain kernel. automatic: tiles, or the plain kernel for
// weights in f32. The bits of both are the same in every batch. library: the device's library
// (Device::multiply) for matrices in bf16, over inputs rounded to bf16; bits depend on the number of rows.
// w8a8: as automatic, but inputs of 8-bit floats are also quantised to 8-bit floats if the folder's scheme
// says so (KernelLaunches::linear_float8), in products of any number of rows, so that bits stay the same.
// fastest: as automatic, but the library multiplies matrices in bf16 from kLibraryRows rows on.
enum class MatrixProducts { automatic, tiles, plain, library, w8a8, fastest };

// From this number of rows on, cuBLASLt was faster than this program's kernels on an H200, for all matrices
// of a layer together (bench/results/2026-11-27-gpu-h200.md).
inline constexpr std::int32_t kLibraryRows = 257;

class DeviceOps {
 public:
  struct Options {
    device::Element weights = device::Element::bf16;  // f32 or bf16, for weights that do not stay quantised
    MatrixProducts products = MatrixProducts::automatic;
    AttentionKernels attention = AttentionKernels::automatic;
    device::WarpgroupForms forms = {};
    // True if products round their inputs to bf16.
    bool rounds() const { return weights == device::Element::bf16 && products != MatrixProducts::plain; }
  };
  DeviceOps(device::Device& device, device::StreamId stream, device::StepArena& arena, const Options& options)
      : device_(device),
        stream_(stream),
        arena_(arena),
        options_(options),
        launches_(device, stream, options.forms),
        layers_(device, stream) {}

  const Options& options() const { return options_; }
  std::int64_t size_bytes() const { return bytes_; }

  // Memory that lives as long as this object: allocate() for results of ops; place() for constant values.
  Result<std::byte*> allocate(std::int64_t bytes, std::string_view name);
  Result<std::byte*> place(std::span<const std::byte> values, std::string_view name);
  // Places the rows of these matrices, stacked, divided where their element types change; in f32, whatever
  // their type, if `exact`. `bias`: of all rows, or empty.
  Result<std::vector<DevicePart>> place_matrix(std::span<const TensorView> views, std::span<const float> bias,
                                               bool exact);
  // Between these two calls, placed weights are converted on the threads of `pool`, in stream order.
  // finish_placing() waits for them, and frees the buffers.
  void begin_placing(ThreadPool* pool) { pool_ = pool; }
  Status finish_placing();
  // The next placed matrix follows the last one of series `which`, which has `count` matrices of one shape
  // and element type: the experts of a layer.
  void continue_series(std::size_t which, std::int64_t count);
  // Places a table of rows; element_of() returns the element type in which it was stored.
  Result<TensorView> place_table(const TensorView& table);
  device::Element element_of(const TensorView& table) const;
  std::int64_t table_bytes(const TensorView& table) const;

  // This rank's place among those on several devices, and the nanoseconds that one waits for another (0: no
  // limit). library: the device's own library exchanges the ranks' parts, and the group's memory is local:
  // this rank's part is in the first half of a window, and all parts follow from the second half on.
  struct Ranks {
    device::RankGroup group = {};
    std::uint64_t patience = 0;
    bool library = false;
  };
  void join_ranks(const Ranks& ranks) { ranks_ = ranks; }
  const Ranks& ranks() const { return ranks_; }

  // Begins a step whose image was copied to `there`. The arena must have begun, too. A step of a bucket has
  // that many rows.
  void begin_step(std::span<const std::int32_t> image, const std::int32_t* there,
                  const std::optional<StepBucket>& bucket = std::nullopt);
  // For a step of a bucket, before its ops: copies everything that they read about its rows, the tables of
  // each lane and the states, to places(). A capture is valid for steps with the same places().
  void bring(std::span<const std::vector<AttentionSequence>> lanes, std::span<const LayerStates> states);
  const std::vector<const void*>& places() const { return places_; }
  // Between these two calls the device captures what ops launch, so that ops must not copy values or
  // allocate. end_capture(): the reason why the capture must not be used; empty if it may.
  void begin_capture();
  std::string end_capture();

  // The device's copy of these values: in the image, or made by this call.
  template <class T>
  const T* there(std::span<const T> values) {
    const std::span<const std::byte> bytes = std::as_bytes(values);
    if (!image_.empty() && bytes.data() >= image_.data() &&
        bytes.data() + bytes.size() <= image_.data() + image_.size())
      return reinterpret_cast<const T*>(image_there_ + (bytes.data() - image_.data()));
    if (captures_ && !values.empty()) {
      refuse_capture("an op brings values of its own");
      return nullptr;
    }
    auto put = arena_.put(values);
    if (put) return *put;
    keep(put.error());
    return nullptr;
  }
  template <class T>
  const T* there(const std::vector<T>& values) {
    return there(std::span<const T>(values));
  }

  // The rows of a KV group's sequences; copied once per step. By row of the batch: the index in block_tables
  // of its blocks, and its sequence; -1 for padding.
  struct Sequences {
    const std::int32_t *block_tables = nullptr, *tables = nullptr;
    const device::SequenceRows* sequences = nullptr;
    const std::int32_t* of_rows = nullptr;
    std::int64_t num_rows = 0;
  };
  Sequences show(std::span<const AttentionSequence> sequences);
  // A step's rows, the same for all KV groups, by the order in which attention computes them, which changes
  // no bit: for few rows per sequence, the splits of its context are computed in parallel; many rows are
  // divided into tiles. Copied once per step and number of rows in a tile (0: no tiles).
  struct AttentionRows {
    std::int64_t num_rows = 0, num_split_rows = 0, num_whole_rows = 0, num_tiles = 0;
    const std::int32_t* positions = nullptr;  // by row of the batch
    const std::int32_t *split_rows = nullptr, *whole_rows = nullptr;
    const std::int32_t* tiles = nullptr;  // [num_tiles + 1]: the first of each in whole_rows
    std::int32_t splits = 0;              // number of splits of the longest context in split_rows
    std::int64_t all_splits = 0;          // as in AttentionArgs
    bool one_each = false;                // every sequence has one row
  };
  AttentionRows show_rows(std::span<const AttentionSequence> sequences, std::int32_t rows_of_tile);
  // A layer's states, from its piece `piece` on; and the number of sequences that have one, including
  // padding.
  struct States {
    device::StatesArgs args;
    std::int64_t num_sequences = 0;
  };
  States show(const LayerStates& states, std::int32_t piece);
  // Number of rows that are not padding; null: all.
  const std::int32_t* num_rows_there() const { return num_rows_there_; }

  // The copies of adapters for rows of steps, borrowed; null: no adapters.
  void use_adapters(const DeviceAdapters* adapters) { adapters_ = adapters; }
  // The rows of an input that have an adapter, at least one of them with factors; copied once per step.
  struct AdaptedRows {
    const device::LowRankRow* rows = nullptr;
    std::int64_t count = 0;
    std::int32_t most_ranks = 0;
  };
  AdaptedRows show_adapters(RowAdapters adapters, std::int64_t num_rows);

  // Scratch for this many floats, which the next call for the same one may overwrite. rows: inputs of
  // products, or rows that move. products: input of a function. rounded: inputs in bf16. heads: queries, keys
  // and values. partial: splits of attention. attended: its output in bfloat16. low_rank: rows times A.
  enum class Scratch : std::uint8_t { rows, products, rounded, heads, partial, attended, low_rank, count };
  float* scratch(Scratch which, std::int64_t floats);
  // kTickets counters for blocks of one launch (device/kernels/tickets.cuh), all 0 between launches. Null:
  // out of memory; the error is kept.
  std::uint32_t* tickets();
  static constexpr std::int64_t kTickets = 1 << 14;
  std::int64_t scratch_floats(Scratch which) const {
    return scratch_[static_cast<std::size_t>(which)].count();
  }
  // Reserves the scratch for a model whose weights are loaded. Floats per row: for norms and moves, for heads
  // that are copied, and for the output of attention.
  struct Widths {
    std::int64_t rows = 0, heads = 0, attended = 0;
  };
  Status reserve(std::int64_t max_rows, const Widths& widths, std::int64_t partial_floats);
  // All memory that ops may write, except for the cache and the callers' memory.
  std::vector<std::span<std::byte>> written() const;
  // Records the widths of a placed matrix, for reserve().
  void note_matrix(std::int64_t input, std::int64_t products) {
    widest_input_ = std::max(widest_input_, input);
    widest_products_ = std::max(widest_products_, products);
  }

  // The output of the last norm before a product, which other products may read until its input rows change.
  const float* find_normed(const LinearInput& input, std::int64_t num_rows, std::int64_t k) const;
  void keep_normed(const LinearInput& input, std::int64_t num_rows, std::int64_t k);
  // Likewise for the rounded rows in Scratch::rounded, in slabs.
  const std::uint16_t* find_rounded(const LinearInput& input, std::int64_t num_rows, std::int64_t k) const;
  void keep_rounded(const LinearInput& input, std::int64_t num_rows, std::int64_t k);
  // Attention's output for the next product, its only reader, was written to Scratch::attended only.
  void keep_attended(const LinearInput& output, std::int64_t num_rows, std::int64_t k);
  const std::uint16_t* take_attended(const LinearInput& input, std::int64_t num_rows, std::int64_t k);
  // Called by ops with the memory that they wrote.
  void wrote(const Buffer& y, std::int64_t num_rows);

  // Heads whose norms, rotation and scale are left to the kernel that writes their keys and values.
  void finish_later(const AttentionInputArgs& heads) { unfinished_ = heads; }
  std::optional<AttentionInputArgs> take_unfinished() { return std::exchange(unfinished_, std::nullopt); }

  // Keeps the first error.
  void keep(const Status& status) {
    if (status_.ok()) status_ = status;
  }
  Status take_status() { return std::exchange(status_, ok_status()); }

  device::KernelLaunches& launches() { return launches_; }
  device::LayerLaunches& layers() { return layers_; }
  // A product by the device's own library.
  void multiply(const device::ProductArgs& args) { keep(device_.multiply(stream_, args)); }
  // Sums and gathers by the device's own library.
  void sum_over_group(float* data, std::int64_t count) { keep(device_.sum_over_group(stream_, data, count)); }
  void gather_of_group(const float* own, float* all, std::int64_t count) {
    keep(device_.gather_of_group(stream_, own, all, count));
  }

 private:
  // Matrices of one shape, contiguous.
  struct Series {
    std::byte* weights = nullptr;
    float* biases = nullptr;
    device::Element element = {};
    std::int64_t count = 0, used = 0;
  };
  Result<std::byte*> take(std::int64_t bytes, std::string_view name);
  WeightUpload& upload();
  Result<const std::byte*> place_rows(std::span<const TensorView> views, device::Element element);
  Result<DevicePart> place_in(Series& series, std::span<const TensorView> views, std::span<const float> bias,
                              bool exact);
  device::Element element_for(std::span<const TensorView> views, bool exact) const;
  device::Element series_element(std::span<const TensorView> views, bool exact) const;
  void refuse_capture(std::string_view why);

  device::Device& device_;
  device::StreamId stream_;
  device::StepArena& arena_;
  Options options_;
  Ranks ranks_;
  device::KernelLaunches launches_;
  device::LayerLaunches layers_;
  std::vector<device::DeviceArray<std::byte>> arrays_;
  std::vector<std::span<std::byte>> written_;  // the arrays that are not constant
  std::array<device::DeviceArray<float>, static_cast<std::size_t>(Scratch::count)> scratch_;
  device::DeviceArray<std::uint32_t> tickets_;
  ThreadPool* pool_ = nullptr;
  std::unique_ptr<WeightUpload> upload_;  // after the arrays to which it writes
  std::int64_t bytes_ = 0, widest_input_ = 0, widest_products_ = 0;
  std::array<Series, 2> series_;
  Series* next_ = nullptr;  // the series of the next matrix, or null
  std::vector<std::pair<const std::byte*, device::Element>> tables_;
  std::span<const std::byte> image_;
  const std::byte* image_there_ = nullptr;
  std::optional<StepBucket> bucket_;
  const std::int32_t* num_rows_there_ = nullptr;
  bool captures_ = false;
  std::string refused_;
  std::vector<const void*> places_;
  std::vector<std::pair<const AttentionSequence*, Sequences>> shown_;
  std::vector<std::pair<std::int32_t, AttentionRows>> shown_rows_;  // by rows of a tile
  std::vector<std::pair<const StateSequence*, States>> shown_states_;
  const DeviceAdapters* adapters_ = nullptr;
  std::vector<std::pair<std::vector<const AdapterFactors*>, AdaptedRows>>
      shown_adapters_;  // by the adapters of the rows
  struct Normed {
    LinearInput input;
    std::int64_t num_rows = 0, k = 0;
    bool is(const LinearInput& other, std::int64_t other_rows, std::int64_t other_k) const;
    bool was_made_of(const float* first, const float* end) const;
  };
  std::optional<Normed> normed_, rounded_,
      attended_;  // the contents of the scratch of these names (rows: normed)
  std::optional<AttentionInputArgs> unfinished_;
  Status status_;
};

}  // namespace pagoda
