#include "device/bulk_check.h"

#include <algorithm>
#include <bit>

#include "base/random.h"
#include "device/check_memory.h"
#include "device/kernels/launch_shapes.h"

namespace pagoda::device {
namespace {

using Form = KernelLaunches::ProductForm;

// A product that tests a form. Its tiles are partial: rows and columns end within the cluster's last block, k
// within a second stage.
struct Asked {
  Form form;
  std::int32_t rows, columns, k;
};
constexpr std::int32_t kBulkDepth = 72, kNarrowDepth = 136;
constexpr Asked kBulk[] = {{Form::bulk_256, 253, 250, kBulkDepth},
                           {Form::bulk_128, 125, 250, kBulkDepth},
                           {Form::bulk_64, 61, 250, kBulkDepth}};
// Columns of both matrices.
constexpr Asked kGated[] = {{Form::bulk_256, 253, 72, kBulkDepth},
                            {Form::bulk_128, 125, 72, kBulkDepth},
                            {Form::bulk_64, 61, 72, kBulkDepth}};
// Kernels of 128 rows, of 64 and of 32.
constexpr Asked kNarrow[] = {
    {Form::tall_112, 125, 218, kNarrowDepth},  {Form::tall_64, 125, 122, kNarrowDepth},
    {Form::narrow_112, 61, 218, kNarrowDepth}, {Form::narrow_112, 29, 218, kNarrowDepth},
    {Form::narrow_64, 61, 122, kNarrowDepth},  {Form::narrow_64, 29, 122, kNarrowDepth},
    {Form::narrow_48, 61, 90, kNarrowDepth},   {Form::narrow_48, 29, 90, kNarrowDepth},
    {Form::narrow_32, 61, 58, kNarrowDepth},   {Form::narrow_32, 29, 58, kNarrowDepth}};

// Numbers on which another order or rounding of sums shows, in four kinds of rows, alternately. The exponents
// of three kinds begin at different minimums: terms that are far apart, and sums too small to be normal. In
// the fourth kind, the large numbers of each 16 cancel each other, so that a difference also shows in
// bfloat16. `sign`: of these.
std::vector<std::uint16_t> drawn(std::uint64_t stream, std::int32_t rows, std::int32_t k,
                                 std::uint32_t sign) {
  constexpr std::uint32_t kExponents = 24, kLeast[] = {100, 40, 1};
  std::vector<std::uint16_t> values;
  for (std::int32_t row = 0; row < rows; ++row)
    for (std::int32_t i = 0; i < k; ++i) {
      const auto bits = static_cast<std::uint32_t>(random_bits(11, stream, values.size()));
      const bool cancels = row % 4 == 3, is_large = i % 8 < 7 && i < k / 16 * 16;
      const std::uint32_t exponent =
          cancels ? (is_large ? 120 : 112) + (bits >> 16) % 4 : kLeast[row % 4] + (bits >> 16) % kExponents;
      const auto value = static_cast<std::uint16_t>((bits & 0x807Fu) | exponent << 7);
      values.push_back(cancels && is_large && i % 16 >= 8
                           ? static_cast<std::uint16_t>(values[values.size() - 8] ^ sign << 15)
                           : value);
    }
  return values;
}

std::vector<float> widened(const std::vector<std::uint16_t>& values) {
  std::vector<float> out;
  for (const std::uint16_t value : values)
    out.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16));
  return out;
}

template <class T>
bool same_bits(const T* got, const T* wanted, std::size_t count) {
  return std::memcmp(got, wanted, count * sizeof(T)) == 0;
}

// Products of up to `rows` by `columns`, over k.
class BulkProducts {
 public:
  BulkProducts(Device& device, StreamId stream, const Asked& most)
      : memory_(device, stream),
        launches_(device, stream),
        most_(most),
        x_(memory_.put(widened(drawn(1, most.rows, most.k, 0)))),
        weights_(memory_.put(drawn(2, most.columns, most.k, 1))),
        rounded_(memory_.room<std::uint16_t>(as_size(slab_elements(most.rows, most.k)))) {}

  // True if a form gives the bits of Form::several. status() may have an error instead.
  bool is_same(const Asked& asked) {
    if (wanted_.empty())
      wanted_ = memory_.get(product({Form::several, most_.rows, most_.columns, most_.k}),
                            as_size(std::int64_t{most_.rows} * most_.columns));
    const auto got = memory_.get(product(asked), as_size(std::int64_t{asked.rows} * asked.columns));
    for (std::int32_t row = 0; !got.empty() && row < asked.rows; ++row)
      if (!same_bits(&got[as_size(row * asked.columns)], &wanted_[as_size(row * most_.columns)],
                     as_size(asked.columns)))
        return false;
    return !got.empty();
  }
  // Likewise for a form that includes the function, compared with a separate launch.
  bool is_same_gated(const Asked& asked) {
    const float* const both =
        product({Form::several, asked.rows, 2 * asked.columns, most_.k});  // and rounded_ has x
    const auto elements = as_size(slab_elements(asked.rows, asked.columns));
    auto *const wanted = memory_.room<std::uint16_t>(elements), *const out =
                                                                    memory_.room<std::uint16_t>(elements);
    if (!memory_.status().ok()) return false;
    memory_.keep(launches_.activate(
        {.in = both, .width = asked.columns, .slab_rows = asked.rows, .rounded = wanted}, asked.rows));
    memory_.keep(launches_.linear_gated(
        {.product =
             {.weight = weights_, .rows = asked.rows, .n = asked.columns, .k = asked.k, .rounded = rounded_},
         .out = out},
        asked.form));
    const auto right = memory_.get(wanted, elements), got = memory_.get(out, elements);
    for (std::int32_t row = 0; !got.empty() && row < asked.rows; ++row)
      for (std::int32_t i = 0; i < asked.columns; ++i) {
        const std::size_t at = as_size(slab_place(asked.rows, row, i));
        if (got[at] != right[at]) return false;
      }
    return !got.empty();
  }
  const Status& status() const { return memory_.status(); }

 private:
  static std::size_t as_size(std::int64_t value) { return static_cast<std::size_t>(value); }

  // Writes to memory that no other form has written, so that a form that writes nothing is detected.
  const float* product(const Asked& asked) {
    auto* const y = memory_.room<float>(as_size(std::int64_t{asked.rows} * asked.columns));
    if (memory_.status().ok())
      memory_.keep(launches_.linear_tiles(Element::bf16,
                                          {.x = x_,
                                           .weight = weights_,
                                           .y = y,
                                           .rows = asked.rows,
                                           .n = asked.columns,
                                           .k = asked.k,
                                           .rounded = rounded_},
                                          asked.form));
    return y;
  }

  CheckMemory memory_;
  KernelLaunches launches_;
  const Asked most_;
  const float* x_;
  const std::uint16_t* weights_;
  std::uint16_t* rounded_;
  std::vector<float> wanted_;
};

}  // namespace

Result<WarpgroupForms> check_bulk_products(Device& device, StreamId stream, const WarpgroupForms& asked) {
  WarpgroupForms shown = asked;
  if (!device.has_warpgroups() || !(asked.bulk || asked.narrow || asked.gated)) return shown;
  BulkProducts check(device, stream, kBulk[0]);
  const auto same = [&](const Asked& form) { return check.is_same(form); };
  shown.bulk = asked.bulk && std::ranges::all_of(kBulk, same);
  shown.gated = asked.gated &&
                std::ranges::all_of(kGated, [&](const Asked& form) { return check.is_same_gated(form); });
  if (!check.status().ok()) return check.status();
  if (!asked.narrow) return shown;
  BulkProducts narrow(device, stream, kNarrow[0]);
  shown.narrow = std::ranges::all_of(kNarrow, [&](const Asked& form) { return narrow.is_same(form); });
  if (!narrow.status().ok()) return narrow.status();
  return shown;
}

}  // namespace pagoda::device
