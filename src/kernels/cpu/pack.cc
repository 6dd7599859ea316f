// Packs weights into strips of 16 outputs (README.md). Runs at startup, so it is parallel over strips.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <span>
#include <vector>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/level.h"
#include "kernels/cpu/linear_tile.h"
#include "kernels/cpu/panel_points.h"
#include "kernels/cpu/scratch.h"
#include "kernels/dequantize.h"
#include "kernels/linear_storage.h"
#include "kernels/reference/quantize.h"
#include "kernels/tiles.h"

namespace pagoda::cpu {
namespace {

constexpr std::int64_t kPackedAtOnce = std::int64_t{32} << 20;  // bytes of stored weights

struct Strip {
  std::uint8_t* out;
  const TensorView* view;
  std::int64_t first_row, rows, k;  // rows: 1..16 valid rows
  std::atomic<bool>* rounded;       // set if the panel's values differ from the stored ones
  const std::byte* row(std::int64_t c) const {
    return view->data + (first_row + c) * dtype_bytes(view->dtype, k);
  }
};

// Writes the scales of a row, and its minima if panels of this format have them, beside its weights.
void put_steps(PackedFormat format, const Strip& s, std::int64_t c, std::span<const WeightStep> steps) {
  const bool has_minima = has_minimum_shares(format);
  const float unit = reference::row_unit(steps, has_minima);
  bool rounded = false;
  const auto share_of = [&](float value) {
    const std::uint16_t share = reference::unit_share(value, unit);
    rounded |= unit * half_to_float(share) != value;
    return share;
  };
  std::memcpy(s.out + 4 * c, &unit, 4);
  const PanelLayout& panel = panel_layout(format);
  const std::int64_t groups = panel.block_inputs / panel.scale_inputs;
  for (std::size_t g = 0; g < steps.size(); g += static_cast<std::size_t>(panel.scale_inputs) / 32) {
    const std::int64_t group = static_cast<std::int64_t>(g) * 32 / panel.scale_inputs;
    std::uint8_t* const at =
        s.out + panel.header_bytes + group / groups * panel.block_bytes + group % groups * 32 + 2 * c;
    const std::uint16_t scale = share_of(steps[g].scale);
    std::memcpy(at, &scale, 2);
    if (has_minima) {
      const std::uint16_t minimum = share_of(steps[g].minimum);
      std::memcpy(at + 32 * groups, &minimum, 2);
    }
  }
  if (rounded) *s.rounded = true;
}

// Writes 32 numbers of one output, four at a time, into the planes of its strip (unpack in
// linear_int8_inl.h).
void put_numbers(int bits, const std::uint8_t* numbers, std::uint8_t* planes) {
  std::uint32_t quads[8];
  std::memcpy(quads, numbers, sizeof quads);
  if (bits >= 4) {
    for (int v = 0; v < 4; ++v) {
      const std::uint32_t word = (quads[v] & 0x0f0f0f0f) | (quads[v + 4] & 0x0f0f0f0f) << 4;
      std::memcpy(planes + 64 * v, &word, 4);
    }
  }
  if (bits % 4 >= 2) {
    const int shift = bits / 4 * 4;
    std::uint32_t words[2] = {};
    for (int v = 0; v < 4; ++v) {
      const std::uint32_t pairs = (quads[v] >> shift & 0x03030303) | (quads[v + 4] >> shift & 0x03030303)
                                                                         << 2;
      words[v / 2] |= pairs << (v % 2 * 4);
    }
    for (int line = 0; line < 2; ++line) std::memcpy(planes + bits / 4 * 256 + 64 * line, &words[line], 4);
  }
  if (bits % 2 == 1) {
    std::uint32_t word = 0;
    for (int quad = 0; quad < 8; ++quad) word |= (quads[quad] >> (bits - 1) & 0x01010101) << quad;
    std::memcpy(planes + bits / 2 * 128, &word, 4);
  }
}

// The 32 numbers of a group as in the file; returns their step.
WeightStep narrow_group(const Strip& s, std::int64_t c, std::int64_t group, std::uint8_t* numbers) {
  const WeightFormat& stored = weight_format(s.view->dtype);
  const auto* row = reinterpret_cast<const std::uint8_t*>(s.row(c));
  if (stored.numbers != nullptr) stored.numbers(row, group, numbers);
  if (stored.numbers != nullptr && stored.step != nullptr) return stored.step(row, group);
  const NibbleGroup nibbles = stored.nibbles(row, group);
  for (int i = 0; i < 16; ++i) {
    numbers[i] = nibbles.nibbles[i] & 15;
    numbers[16 + i] = nibbles.nibbles[i] >> 4;
  }
  return {nibbles.scale, nibbles.minimum};
}

// Packs narrow weights with shares as scales; their bits are kept.
void pack_numbers(const Strip& s, PackedFormat format, std::span<WeightStep> steps) {
  const PanelLayout& panel = panel_layout(format);
  for (std::int64_t c = 0; c < s.rows; ++c) {
    for (std::size_t g = 0; g < steps.size(); ++g) {
      std::uint8_t numbers[32];
      const auto group = static_cast<std::int64_t>(g), in_block = group * 32 % panel.block_inputs;
      steps[g] = narrow_group(s, c, group, numbers);
      std::uint8_t* const block =
          s.out + panel.header_bytes + group * 32 / panel.block_inputs * panel.block_bytes;
      put_numbers(panel.bits, numbers,
                  block + panel.scale_bytes + in_block / 32 * number_bytes(format) + 4 * c);
    }
    put_steps(format, s, c, steps);
  }
}

// Packs K types; bits are kept, except that each scale and minimum gets a byte.
void pack_super_blocks(const Strip& s, PackedFormat format) {
  const PanelLayout& panel = panel_layout(format);
  const DTypeInfo& stored = dtype_info(s.view->dtype);
  const auto read = weight_format(s.view->dtype).super_block;
  const int groups = static_cast<int>(panel.block_inputs) / panel.scale_inputs;
  SuperBlock b;
  for (std::int64_t c = 0; c < s.rows; ++c) {
    const auto* row = reinterpret_cast<const std::uint8_t*>(s.row(c));
    std::uint8_t* out = s.out;
    for (std::int64_t begin = 0; begin < s.k; begin += panel.block_inputs) {
      read(row, b);
      std::memcpy(out + 2 * c, &b.d, 2);
      std::uint8_t* scales = out + 32 + c;
      if (panel.minima) {
        const auto negative = static_cast<std::uint16_t>(b.dmin ^ 0x8000);
        std::memcpy(out + 32 + 2 * c, &negative, 2);
        scales += 32;
      }
      for (int g = 0; g < groups; ++g) {
        scales[16 * g] = static_cast<std::uint8_t>(b.scales[g]);
        if (panel.minima && panel.scale_inputs == 16)
          scales[16 * g] = static_cast<std::uint8_t>(b.scales[g] | b.minima[g] << 4);
        else if (panel.minima)
          scales[16 * (groups + g)] = b.minima[g];
      }
      for (int i = 0; i < panel.block_inputs; i += 32)
        put_numbers(panel.bits, b.numbers + i,
                    out + panel.scale_bytes + i / 32 * number_bytes(format) + 4 * c);
      row += stored.block_bytes;
      out += panel.block_bytes;
    }
  }
}

// Writes 32 codes of one output into its strip (linear_codes_inl.h): 8-bit codes as pairs of inputs,
// interleaved over the outputs; 4-bit codes as groups of eight inputs.
void put_codes(int bits, const std::uint8_t* codes, std::int64_t c, std::uint8_t* numbers) {
  for (int i = 0; bits == 8 && i < 32; ++i) numbers[i / 2 * 32 + 2 * c + i % 2] = codes[i];
  for (int i = 0; bits == 4 && i < 32; i += 8) {
    std::uint32_t word = 0;
    for (int j = 0; j < 8; ++j) word |= std::uint32_t{codes[i + j]} << (4 * j);
    std::memcpy(numbers + 8 * i + 4 * c, &word, 4);
  }
}

// Packs float codes; their bits and those of their scales are kept.
void pack_codes(const Strip& s, PackedFormat format) {
  const PanelLayout& panel = panel_layout(format);
  const auto read = weight_format(s.view->dtype).codes;
  FloatCodes group;
  for (std::int64_t c = 0; c < s.rows; ++c) {
    const auto* row = reinterpret_cast<const std::uint8_t*>(s.row(c));
    for (std::int64_t begin = 0; begin < s.k; begin += 32) {
      std::uint8_t* const block = s.out + panel.header_bytes + begin / panel.block_inputs * panel.block_bytes;
      const std::int64_t in_block = begin % panel.block_inputs;
      read(row, begin / 32, group);
      put_codes(panel.code_bits, group.codes, c, block + panel.scale_bytes + 2 * panel.code_bits * in_block);
      if (panel.scales == PanelScales::floats) {
        std::memcpy(block + 4 * c, &group.scale, 4);
      } else {
        for (int half = 0; half < 2; ++half) block[in_block + 16 * half + c] = group.scales[half];
      }
    }
    if (panel.scales == PanelScales::e4m3) {
      std::memcpy(s.out + 4 * c, &group.factor, 4);
      std::memcpy(s.out + 64 + 4 * c, &group.divisor, 4);
    }
  }
}

// Returns one row as bf16, in place or in `out`, which must hold k rounded up to 16; an odd k is padded with
// a zero.
const std::uint16_t* bf16_row(const LinearKernels& kernels, const Strip& s, std::int64_t c, float* row,
                              std::uint16_t* out) {
  if (s.view->dtype == DType::bf16) {
    std::memcpy(out, s.row(c), static_cast<std::size_t>(s.k) * 2);
  } else {
    kernels.floats_to_bf16(row, s.k, out);
  }
  if (s.k % 2 != 0) out[s.k] = 0;
  return out;
}

// The same for f16.
const std::uint16_t* half_row(const LinearKernels& kernels, const Strip& s, float* row, std::uint16_t* out) {
  // F16: pack_floats has copied the row there.
  if (s.view->dtype != DType::f16) kernels.floats_to_half(row, s.k, out);
  if (s.k % 2 != 0) out[s.k] = 0;
  return out;
}

// Writes a row's scale, and -128 times the sum of its numbers (first_sums in simd_avx512.h).
void put_scale_and_correction(const Strip& s, std::int64_t c, float scale, std::int32_t sum) {
  const std::int32_t correction = -128 * sum;
  std::memcpy(s.out + 4 * c, &scale, 4);
  std::memcpy(s.out + 64 + 4 * c, &correction, 4);
}

// Packs a row of weights in 8 bits.
void put_row(const LinearKernels& kernels, PackedFormat format, const Strip& s, std::int64_t c,
             const float* row, std::span<WeightStep> steps) {
  std::uint8_t* block = s.out + strip_header_bytes(format) + scale_bytes(format) + 4 * c;
  bool rounded = false;
  const bool has_signs = format == PackedFormat::i8;
  std::int32_t sum = 0;
  for (std::size_t g = 0; g < steps.size(); ++g) {
    const auto begin = static_cast<std::int64_t>(g) * 32, count = std::min<std::int64_t>(32, s.k - begin);
    const std::span x(row + begin, static_cast<std::size_t>(count));
    steps[g] = reference::weight_step(format, s.view->dtype, s.row(c), static_cast<std::int64_t>(g), x);
    std::uint8_t bytes[32] = {};
    kernels.row_weights(x.data(), count, steps[g].minimum, reference::weight_inverse(steps[g]), bytes);
    const WeightStep step = steps[g];
    for (std::size_t i = 0; i < x.size(); ++i)
      rounded |= step.scale * static_cast<float>(bytes[i]) + step.minimum != x[i];
    for (std::size_t i = 0; has_signs && i < x.size(); ++i) {
      bytes[i] ^= 128;
      sum += static_cast<std::int8_t>(bytes[i]);
    }
    for (std::size_t quad = 0; quad < 8; ++quad)
      std::memcpy(block + (g % 2 * 8 + quad) * 64, bytes + 4 * quad, 4);
    if (g % 2 == 1) block += packed_block_bytes(format);
  }
  if (has_signs)
    put_scale_and_correction(s, c, steps.front().scale, sum);
  else
    put_steps(format, s, c, steps);
  if (rounded) *s.rounded = true;
}

// Packs any type via floats; `scratch` holds two rows of floats.
void pack_floats(const LinearKernels& kernels, const Strip& s, PackedFormat format, std::byte* scratch,
                 std::span<WeightStep> steps) {
  auto* row = reinterpret_cast<float*>(scratch);
  auto* narrow = reinterpret_cast<std::uint16_t*>(row + round_up(s.k, 16));
  for (std::int64_t c = 0; c < s.rows; ++c) {
    if (s.view->dtype == DType::f16) {
      // Through a copy: vector loads read up to the next multiple of 16, and the file may end at the row's
      // end.
      std::memcpy(narrow, s.row(c), static_cast<std::size_t>(s.k) * 2);
      if (format != PackedFormat::f16) kernels.half_to_floats(narrow, s.k, row);
    } else if (format != PackedFormat::bf16 || s.view->dtype != DType::bf16) {
      dequantize(s.view->dtype, reinterpret_cast<const std::byte*>(s.row(c)), s.k, row);
    }
    if (format == PackedFormat::f32) {
      for (std::int64_t k = 0; k < s.k; ++k) std::memcpy(s.out + (k * kStrip + c) * 4, row + k, 4);
    } else if (format == PackedFormat::bf16) {
      const std::uint16_t* values = bf16_row(kernels, s, c, row, narrow);
      for (std::int64_t pair = 0; pair < ceil_div(s.k, 2); ++pair) {
        std::memcpy(s.out + pair * 64 + c * 4, values + 2 * pair, 4);
      }
    } else if (format == PackedFormat::f16) {
      const std::uint16_t* values = half_row(kernels, s, row, narrow);
      for (std::int64_t k = 0; k < round_up(s.k, 2); ++k)
        std::memcpy(s.out + (k * kStrip + c) * 2, values + k, 2);
    } else {
      put_row(kernels, format, s, c, row, steps);
    }
  }
}

// Packs `count` strips from `first_strip` on. Sets `rounded` if a panel's values differ from the stored ones.
void pack_strips(const KernelContext& context, const TensorView& view, const LinearSegment& segment,
                 std::int64_t first_strip, std::int64_t count, const PackedLinear::Storage& storage,
                 std::atomic<bool>& rounded) {
  const LinearKernels& kernels = kernels_of<LinearKernels>(context.level);
  for_ranges(context, count, 4, [&](std::int64_t first, std::int64_t last) {
    static thread_local Scratch scratch;
    const bool rounds = storage.type == LinearType::int8;
    std::vector<WeightStep> steps(
        static_cast<std::size_t>(rounds ? ceil_div(storage.k, std::int64_t{32}) : 0));
    for (std::int64_t strip = first_strip + first; strip < first_strip + last; ++strip) {
      const Strip s{
          reinterpret_cast<std::uint8_t*>(storage.own.data()) + segment.offset + strip * segment.strip_step,
          &view,
          strip * kStrip,
          std::min(kStrip, segment.n - strip * kStrip),
          storage.k,
          &rounded};
      std::byte* work = scratch.take(static_cast<std::size_t>(2 * round_up(storage.k, 16) + 16) * 4);
      if (has_points(segment.format)) {
        pack_points(view, segment.format, s.first_row, s.rows, s.out);
      } else if (keeps_file_numbers(segment.format)) {
        pack_super_blocks(s, segment.format);
      } else if (has_codes(segment.format)) {
        pack_codes(s, segment.format);
      } else if (is_narrow(segment.format)) {
        pack_numbers(s, segment.format, steps);
      } else {
        pack_floats(kernels, s, segment.format, work, steps);
      }
    }
  });
}

// Interleaves the strips of both matrices.
std::int64_t plan_gated(PackedLinear::Storage& storage) {
  const std::int64_t strips = ceil_div(storage.n, kStrip);
  LinearSegment segment;
  segment.format = storage.parts.front().format;
  segment.n = storage.n;
  segment.strip_bytes = strip_bytes(segment.format, storage.k);
  segment.strip_step = 2 * segment.strip_bytes;
  storage.segments.push_back(segment);
  segment.offset = segment.strip_bytes;
  storage.segments.push_back(segment);
  segment.offset = 0;
  segment.strip_step = segment.strip_bytes;
  segment.n = 2 * strips * kStrip;
  storage.runs.push_back(segment);
  return 2 * strips * segment.strip_bytes;
}

// True if weights of a quantised folder have the same scale (and minimum) within each 128 inputs, as when
// groups of 128 or more were read. For 8-bit floats the last group may be shorter.
bool scales_are_for_128(const TensorView& view) {
  const bool floats = view.dtype == DType::fp8;
  if (!floats && (view.dtype != DType::int4 || view.columns() % 128 != 0)) return false;
  const std::int64_t bytes = dtype_info(view.dtype).block_bytes, row_blocks = view.columns() / 32;
  const std::size_t same = floats ? 4 : 8;  // bytes of a scale, and of a minimum
  for (std::int64_t block = 0; block < view.rows() * row_blocks; ++block) {
    const std::byte* const at = view.data + block * bytes;
    if (block % row_blocks % 4 != 0 && std::memcmp(at, at - bytes, same) != 0) return false;
  }
  return true;
}

// True if each row of an 8-bit weight of a quantised folder has a single scale.
bool scales_are_for_rows(const TensorView& view) {
  if (view.dtype != DType::int8) return false;
  const std::int64_t bytes = dtype_info(view.dtype).block_bytes, row_blocks = view.columns() / 32;
  for (std::int64_t block = 0; block < view.rows() * row_blocks; ++block) {
    const std::byte* const at = view.data + block * bytes;
    if (block % row_blocks != 0 && std::memcmp(at, at - bytes, sizeof(float)) != 0) return false;
  }
  return true;
}

// True if products are integer sums over all inputs that fit into 32 bits, times the scales of output and
// row. Adjacent matrices share the form of their rows, so this holds for all or for none.
bool adds_integers(const PackedLinear::Storage& storage, std::span<const TensorView> weights) {
  const LinearArithmetic& arithmetic = storage.arithmetic;
  return storage.type == LinearType::int8 && arithmetic.number == InputNumber::int8 &&
         arithmetic.scales_rows() && storage.k <= kMostIntegerInputs &&
         std::all_of(weights.begin(), weights.end(), scales_are_for_rows);
}

// True if panels of 16-bit numbers hold rounded values. For 8-bit panels this is determined while packing.
bool plain_panels_round(LinearType type, const PackedPart& part, DType stored) {
  return (type == LinearType::bfloat16 && stored != DType::bf16 && !has_codes(part.format)) ||
         (type == LinearType::float16 && stored != DType::f16);
}

// The biases of a gated pair, interleaved like its strips.
std::vector<float> interleaved(const std::vector<float>& bias, std::int64_t n) {
  std::vector<float> out(static_cast<std::size_t>(2 * round_up(n, kStrip)));
  for (std::int64_t i = 0; i < 2 * n; ++i) {
    const std::int64_t matrix = i / n, column = i % n;
    const std::int64_t at = (2 * (column / kStrip) + matrix) * kStrip + column % kStrip;
    out[static_cast<std::size_t>(at)] = bias[static_cast<std::size_t>(i)];
  }
  return out;
}

PackedFormat panels_of(CpuLevel level, const PackedLinear::Storage& storage,
                       std::span<const TensorView> weights, const TensorView& view) {
  if (storage.type == LinearType::float32) return PackedFormat::f32;
  if (storage.type == LinearType::float16) return PackedFormat::f16;
  const PackedFormat own = chosen_panels(level, storage.type, storage.form, weights, view);
  const bool asks = own == PackedFormat::q4 || own == PackedFormat::e4m3,
             both = storage.form == LinearForm::gated;
  const bool by_128 = asks && (both ? std::all_of(weights.begin(), weights.end(), scales_are_for_128)
                                    : scales_are_for_128(view));
  if (own == PackedFormat::e4m3 && !by_128) return PackedFormat::bf16;
  return own == PackedFormat::q4 && by_128 ? PackedFormat::q4g : own;
}

}  // namespace

std::vector<PackedFormat> choose_panels(CpuLevel level, const PackedLinear::Storage& storage,
                                        std::span<const TensorView> weights) {
  std::vector<PackedFormat> out(weights.size(), PackedFormat::i8);
  if (adds_integers(storage, weights)) return out;
  std::transform(weights.begin(), weights.end(), out.begin(),
                 [&](const TensorView& view) { return panels_of(level, storage, weights, view); });
  return out;
}

std::int64_t plan_panels(PackedLinear::Storage& storage) {
  if (storage.form == LinearForm::gated) return plan_gated(storage);
  std::int64_t offset = 0, n_begin = 0;
  for (const PackedPart& part : storage.parts) {
    LinearSegment segment;
    segment.format = part.format;
    segment.n_begin = n_begin;
    segment.n = part.rows;
    segment.strip_bytes = segment.strip_step = strip_bytes(segment.format, storage.k);
    segment.offset = offset;
    n_begin += segment.n;
    offset += ceil_div(segment.n, kStrip) * segment.strip_bytes;
    storage.segments.push_back(segment);
    if (LinearSegment* run = storage.runs.empty() ? nullptr : &storage.runs.back();
        run != nullptr && run->format == segment.format && run->n % kStrip == 0) {
      run->n += segment.n;
    } else {
      storage.runs.push_back(segment);
    }
  }
  return offset;
}

void pack(const KernelContext& context, std::span<const TensorView> weights, PackedLinear::Storage& storage,
          const std::function<void(const TensorView&)>& on_packed) {
  if (storage.form == LinearForm::gated && !storage.bias.empty())
    storage.bias = interleaved(storage.bias, storage.n);
  std::atomic<bool> rounded{false};
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const TensorView& view = weights[i];
    if (plain_panels_round(storage.type, storage.parts[i], view.dtype)) rounded = true;
    const std::int64_t row_bytes = dtype_bytes(view.dtype, storage.k),
                       num_strips = ceil_div(view.rows(), kStrip);
    const std::int64_t at_once = std::max<std::int64_t>(1, kPackedAtOnce / (row_bytes * kStrip));
    for (std::int64_t strip = 0; strip < num_strips; strip += at_once) {
      const std::int64_t count = std::min(at_once, num_strips - strip);
      pack_strips(context, view, storage.segments[i], strip, count, storage, rounded);
      const std::int64_t row = strip * kStrip, rows = std::min(count * kStrip, view.rows() - row);
      if (on_packed) on_packed({view.dtype, {rows, storage.k}, view.data + row * row_bytes});
    }
  }
  storage.keeps_values = !rounded;
}

}  // namespace pagoda::cpu
