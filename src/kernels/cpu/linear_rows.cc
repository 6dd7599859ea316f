#include "kernels/cpu/linear_rows.h"

#include <algorithm>
#include <atomic>

#include "base/check.h"
#include "kernels/cpu/level.h"
#include "kernels/cpu/rows.h"
#include "kernels/linear_storage.h"
#include "kernels/tiles.h"

namespace pagoda::cpu {
namespace {

bool has_narrow(const PackedLinear::Storage& weight) {
  return std::any_of(weight.runs.begin(), weight.runs.end(),
                     [](const LinearSegment& run) { return is_narrow(run.format); });
}

// All panels of the weight are then of this kind.
bool adds_integers(const PackedLinear::Storage& weight) {
  return weight.runs.front().format == PackedFormat::i8;
}

// True if all panels of the weight have K types.
bool has_blocks_alone(const PackedLinear::Storage& weight) {
  return std::all_of(weight.runs.begin(), weight.runs.end(),
                     [](const LinearSegment& run) { return keeps_file_numbers(run.format); });
}

// Rows of a full panel that is multiplied one strip at a time.
std::int64_t stream_rows(const LinearKernels& kernels, const PackedLinear::Storage& weight) {
  switch (weight.type) {
    case LinearType::float32:
    case LinearType::float16:
      return kernels.f32_rows;
    case LinearType::bfloat16:
      return kernels.bf16_rows;
    case LinearType::int8:
      break;
  }
  if (adds_integers(weight)) return kernels.integer_rows;
  return has_narrow(weight) ? kernels.stream_narrow_rows : kernels.stream_bytes_rows;
}

// True if no panel has numbers of 2 or 3 bits, which take the most instructions to widen, or float codes.
bool has_four_bits_or_more(const PackedLinear::Storage& weight) {
  return std::all_of(weight.runs.begin(), weight.runs.end(),
                     [](const LinearSegment& run) { return panel_layout(run.format).bits >= 4; });
}

// True if two strips are multiplied at once. A single strip is read as one long stream, but leaves Zen 5's
// units waiting for each other's results, which is the bottleneck there if several panels share a strip.
// Narrow weights shared by several panels are no stream: they are read from where they were widened. Where
// masks and shifts use units that products leave idle, each panel widens for itself.
bool takes_two_strips(const KernelContext& context, const PackedLinear::Storage& weight,
                      std::int64_t num_rows) {
  constexpr std::int64_t kOnePanel = 12;
  const LinearKernels& kernels = kernels_of<LinearKernels>(context.level);
  const bool wide = context.level == CpuLevel::avx512;
  const bool codes_in_tiles = weight.type == LinearType::bfloat16 && kernels.widens_whole_strips;
  if (has_narrow(weight) && !codes_in_tiles) {
    const bool each = wide && context.tuning == CpuTuning::common && has_four_bits_or_more(weight);
    return !each && num_rows > stream_rows(kernels, weight);
  }
  const bool wide_zen5 = wide && context.tuning == CpuTuning::zen5;
  return num_rows > (wide_zen5 && weight.type == LinearType::bfloat16 ? kOnePanel : kStreamRows);
}

std::int64_t panel_rows(const LinearKernels& kernels, const PackedLinear::Storage& weight, bool two_strips) {
  if (!two_strips || weight.type != LinearType::int8 || adds_integers(weight))
    return stream_rows(kernels, weight);
  return has_blocks_alone(weight) ? kernels.block_rows : kernels.int8_rows;
}

// The caller's rows, and the norm that turns them into the input.
struct Source {
  const LinearInput& input;
  const RowKernels& rows;
  std::int64_t k;

  // The row is probably in another core's cache, so fetching it takes a while.
  void prefetch(std::int64_t row) const {
    const float* x = input.x + row * input.stride;
    for (std::int64_t i = 0; i < k; i += 16) __builtin_prefetch(x + i);
  }

  // Row `row`, in place or in `buffer`, which must hold k floats rounded up to 16.
  const float* row(std::int64_t row, float* buffer) const {
    const float* x = input.x + row * input.stride;
    switch (input.op) {
      case LinearInput::Op::none:
        return x;
      case LinearInput::Op::rms_norm:
        rows.rms_norm(x, k, input.weight, input.eps, buffer);
        break;
      case LinearInput::Op::layer_norm:
        rows.layer_norm(x, k, input.weight, input.bias, input.eps, buffer);
        break;
    }
    return buffer;
  }
};

}  // namespace

PreparedRows::PreparedRows(const KernelContext& context, const PackedLinear::Storage& weight,
                           std::int64_t num_rows, Scratch& scratch)
    : PreparedRows(context, weight, num_rows) {
  data_ = scratch.take(static_cast<std::size_t>(bytes()));
}

PreparedRows::PreparedRows(const KernelContext& context, const PackedLinear::Storage& weight,
                           std::int64_t num_rows)
    : kernels_(kernels_of<LinearKernels>(context.level)),
      type_(weight.type),
      arithmetic_(weight.arithmetic),
      scale_inputs_(weight.scale_inputs()),
      needs_whole_rows_(weight.needs_whole_rows()),
      are_integers_(adds_integers(weight)),
      k_(weight.k) {
  const bool two_strips = takes_two_strips(context, weight, num_rows);
  panels_ = {.num_rows = num_rows,
             .count = ceil_div(num_rows, panel_rows(kernels_, weight, two_strips)),
             .two_strips = two_strips};
  // If each thread has its own rows, tall panels would give some threads one panel more than others.
  if (num_rows >= kOwnRows * num_threads(context))
    panels_.count = std::min(num_rows, round_up(panels_.count, num_threads(context)));
  const std::int64_t height = ceil_div(num_rows, panels_.count);
  switch (type_) {
    case LinearType::float32:
    case LinearType::float16:
      panels_.bytes = k_ * height * 4;
      break;
    case LinearType::bfloat16:
      panels_.bytes = ceil_div(k_, std::int64_t{32}) * 32 * kernels_.bf16_bytes * height;
      break;
    case LinearType::int8:
      panels_.bytes = ceil_div(k_, std::int64_t{64}) * group_bytes(height);
      break;
  }
  panels_.bytes = round_up(panels_.bytes, 64);
}

std::int64_t PreparedRows::group_bytes(std::int64_t height) const {
  return are_integers_ ? height * 64 * kernels_.int8_bytes : int8_group_bytes(height, kernels_.int8_bytes);
}

std::int64_t PreparedRows::bytes() const {
  const std::int64_t scales = arithmetic_.scales_rows() ? round_up(panels_.num_rows * 4, 64) : 0;
  return panels_.count * panels_.bytes + scales;
}

PreparedRows::Place PreparedRows::place(std::int64_t row) const {
  const std::int64_t panel = ceil_div((row + 1) * panels_.count, panels_.num_rows) - 1;
  const std::int64_t begin = panels_.begin(panel);
  return {data_ + panel * panels_.bytes, row - begin, panels_.begin(panel + 1) - begin, panel};
}

void PreparedRows::advance(Place& place) const {
  if (++place.row < place.height) return;
  ++place.index;
  place.panel += panels_.bytes;
  place.row = 0;
  place.height = panels_.begin(place.index + 1) - panels_.begin(place.index);
}

void PreparedRows::put(const Place& place, std::int64_t first, const float* from, std::int64_t count) const {
  CHECK(!needs_whole_rows_ || count == k_);
  if (arithmetic_.is_own()) return store(place, first, from, count, /*are_numbers=*/false);
  // Parts of a row that different threads write have the same, fixed scale.
  const auto set_scale = [&](float scale) {
    if (first == 0) row_scales(panels_, data_)[panels_.begin(place.index) + place.row] = scale;
  };
  if (are_integers_) {
    const std::int64_t bytes = group_bytes(place.height);
    std::byte* const to = place.panel + first / 64 * bytes + place.row * 64 * kernels_.int8_bytes;
    return set_scale(kernels_.integer_inputs(arithmetic_, from, count, to, bytes));
  }
  static thread_local Scratch scratch;
  auto* const numbers =
      reinterpret_cast<float*>(scratch.take(static_cast<std::size_t>(round_up(count, 16) * 4)));
  const float scale = kernels_.quantize_inputs(arithmetic_, from, count, numbers);
  if (arithmetic_.scales_rows()) set_scale(scale);
  const bool whole = arithmetic_.number == InputNumber::int8 && arithmetic_.scales_rows();
  store(place, first, numbers, count, whole);
}

void PreparedRows::store(const Place& place, std::int64_t first, const float* from, std::int64_t count,
                         bool are_numbers) const {
  const std::int64_t height = place.height, row = place.row;
  switch (type_) {
    case LinearType::float32:
    case LinearType::float16: {
      float* const to = reinterpret_cast<float*>(place.panel) + first * height + row;
      for (std::int64_t i = 0; i < count; ++i) to[i * height] = from[i];
      break;
    }
    case LinearType::bfloat16: {
      const std::int64_t group = 32 * kernels_.bf16_bytes;
      kernels_.round_row(from, count, place.panel + (first / 32 * height + row) * group, height * group);
      break;
    }
    case LinearType::int8: {
      const std::int64_t bytes = group_bytes(height);
      const std::int64_t row_bytes = 64 * kernels_.int8_bytes;
      std::byte* const group = place.panel + first / 64 * bytes;
      auto* const scale = reinterpret_cast<float*>(group + height * row_bytes);
      const auto quantize = are_numbers ? kernels_.store_numbers : kernels_.quantize_row;
      quantize(from, count, scale_inputs_,
               {.q = group + row * row_bytes,
                .scale = scale + row,
                .term = reinterpret_cast<std::int32_t*>(scale + 2 * height) + row,
                .sum = scale + 4 * height + row,
                .early_term = reinterpret_cast<std::int32_t*>(scale + 6 * height) + row,
                .late_term = reinterpret_cast<std::int32_t*>(scale + 8 * height) + row,
                .pair = reinterpret_cast<std::int32_t*>(scale + 10 * height) + row,
                .peaks = reinterpret_cast<std::int32_t*>(scale + 11 * height) + row,
                .half = height,
                .step = bytes});
      break;
    }
  }
}

void PreparedRows::fill(const KernelContext& context, const LinearInput& input) const {
  const Source source{input, kernels_of<RowKernels>(context.level), k_};
  const std::int64_t grain = std::max<std::int64_t>(1, 4096 / k_ * panels_.count / panels_.num_rows);
  for_ranges(context, panels_.count, grain, [&](std::int64_t first, std::int64_t last) {
    static thread_local Scratch scratch;
    auto* buffer = reinterpret_cast<float*>(scratch.take(static_cast<std::size_t>(round_up(k_, 16) * 4)));
    const std::int64_t begin = panels_.begin(first), end = panels_.begin(last);
    Place to = place(begin);
    for (std::int64_t row = begin; row < end; ++row, advance(to)) {
      if (row + 1 < end) source.prefetch(row + 1);
      put(to, 0, source.row(row, buffer), k_);
    }
  });
}

InputRows::InputRows(const KernelContext& context, const PackedLinear::Storage& weight,
                     const LinearInput& input, std::int64_t num_rows, Scratch& scratch)
    : context_(context), weight_(weight), input_(input), shared_(context, weight, num_rows, scratch) {
  static std::atomic<std::uint64_t> products{0};
  // The limit was measured with two threads: preparing the rows in every thread costs `others` times the
  // work. A single row is never shared.
  const std::int64_t few = weight.type == LinearType::int8 ? kStreamRows : kFetchRows - 1;
  const std::int64_t others = num_threads(context) - 1;
  if (others > 0 && (num_rows == 1 || num_rows * others <= few)) {
    product_ = products.fetch_add(1, std::memory_order_relaxed) + 1;
  } else {
    shared_.fill(context, input);
  }
}

const std::byte* InputRows::data() const {
  if (product_ == 0) return shared_.data();
  static thread_local Scratch scratch;
  static thread_local const std::byte* own = nullptr;
  static thread_local std::uint64_t of_product = 0;
  if (of_product != product_) {
    KernelContext alone = context_;
    alone.pool = nullptr;
    const PreparedRows rows(alone, weight_, panels().num_rows, scratch);
    rows.fill(alone, input_);
    own = rows.data();
    of_product = product_;
  }
  return own;
}

}  // namespace pagoda::cpu
