// A PackedLinear as two pieces of bytes, the larger of which is mapped unchanged: description() and map().
// The description, little-endian: version u32; backend, type, form, keeps_values, has_blocks u8; the
// arithmetic's number and scales u8, group i32, scale and largest f32; n, k i64; number of parts u32, then
// format u8 and rows i64 of each; number of bias entries u64, then these as float32.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
#include <utility>

#include "kernels/linear.h"
#include "kernels/linear_storage.h"
#include "kernels/tiles.h"

namespace pagoda {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::int64_t kMaxRows = std::int64_t{1} << 31, kMaxColumns = std::int64_t{1} << 26;
constexpr std::uint32_t kMaxParts = 64;

template <class T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}
  template <class T>
  T take() {
    T value{};
    if (rest_.size() < sizeof value) {
      ok_ = false;
      return value;
    }
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_.remove_prefix(sizeof value);
    return value;
  }
  bool ok() const { return ok_; }
  std::size_t left() const { return rest_.size(); }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

bool fits(const PackedLinear::Storage& storage, PackedFormat format) {
  if (storage.backend == Backend::reference) return format == PackedFormat::plain;
  switch (storage.type) {
    case LinearType::float32:
      return format == PackedFormat::f32;
    case LinearType::bfloat16:
      if (format == PackedFormat::e4m3) return storage.k % 32 == 0;
      if (format == PackedFormat::nf4 || format == PackedFormat::nvfp4) return storage.k % 64 == 0;
      return format == PackedFormat::bf16;
    case LinearType::float16:
      return format == PackedFormat::f16;
    case LinearType::int8:
      if (keeps_file_numbers(format)) return storage.k % std::ssize(SuperBlock{}.numbers) == 0;
      if (format == PackedFormat::q4g) return storage.k % 128 == 0;
      if (format == PackedFormat::i8)
        return storage.arithmetic.number == InputNumber::int8 && storage.arithmetic.scales_rows() &&
               storage.k <= kMostIntegerInputs;
      return format == PackedFormat::q8 || format == PackedFormat::q4 || format == PackedFormat::q8m ||
             (format >= PackedFormat::q4s && format <= PackedFormat::fp4);
  }
  return false;
}

// The number of entries of a packed bias, if there is a bias.
std::int64_t packed_bias(const PackedLinear::Storage& storage) {
  constexpr std::int64_t kStrip = 16;
  const bool interleaved = storage.backend == Backend::cpu && storage.form == LinearForm::gated;
  return interleaved ? 2 * round_up(storage.n, kStrip) : storage.num_rows();
}

bool read_parts(Reader& in, PackedLinear::Storage& storage) {
  const auto count = in.take<std::uint32_t>();
  if (!in.ok() || count < 1 || count > kMaxParts) return false;
  std::int64_t rows = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    PackedPart part;
    part.format = static_cast<PackedFormat>(in.take<std::uint8_t>());
    part.rows = in.take<std::int64_t>();
    if (!in.ok() || !fits(storage, part.format) || part.rows < 1 || part.rows > kMaxRows) return false;
    rows += part.rows;
    storage.parts.push_back(part);
  }
  // Parts in integers (i8) cannot share the form of their rows with other parts.
  const auto of_integers = std::ranges::count(storage.parts, PackedFormat::i8, &PackedPart::format);
  if (of_integers != 0 && of_integers != std::ssize(storage.parts)) return false;
  const bool blocks = std::ranges::any_of(storage.parts, keeps_file_numbers, &PackedPart::format);
  if (storage.backend == Backend::cpu && blocks != storage.has_blocks) return false;
  if (storage.form == LinearForm::stacked) return rows == storage.n;
  return count == 2 && storage.parts[0].rows == storage.n && storage.parts[1].rows == storage.n &&
         storage.parts[0].format == storage.parts[1].format;
}

bool read_arithmetic(Reader& in, LinearArithmetic& out) {
  const auto number = in.take<std::uint8_t>(), scales = in.take<std::uint8_t>();
  out.group = in.take<std::int32_t>();
  out.scale = in.take<float>();
  out.largest = in.take<float>();
  if (!in.ok() || number > 2 || scales > 2) return false;
  out.number = static_cast<InputNumber>(number);
  out.scales = static_cast<InputScale>(scales);
  if (out.scales == InputScale::group && (out.group < 64 || out.group % 64 != 0)) return false;
  return out.scales != InputScale::fixed || out.is_own() || (std::isfinite(out.scale) && out.scale > 0);
}

bool read_description(Reader& in, PackedLinear::Storage& storage) {
  if (in.take<std::uint32_t>() != PackedLinear::kLayoutVersion) return false;
  const auto backend = in.take<std::uint8_t>(), type = in.take<std::uint8_t>(),
             form = in.take<std::uint8_t>(), keeps_values = in.take<std::uint8_t>(),
             has_blocks = in.take<std::uint8_t>();
  if (!read_arithmetic(in, storage.arithmetic)) return false;
  storage.n = in.take<std::int64_t>();
  storage.k = in.take<std::int64_t>();
  if (!in.ok() || backend > 1 || type > 3 || form > 1 || keeps_values > 1 || has_blocks > 1 ||
      storage.n < 1 || storage.n > kMaxRows || storage.k < 1 || storage.k > kMaxColumns)
    return false;
  storage.backend = static_cast<Backend>(backend);
  storage.type = static_cast<LinearType>(type);
  storage.form = static_cast<LinearForm>(form);
  storage.keeps_values = keeps_values != 0;
  storage.has_blocks = has_blocks != 0;
  if (!read_parts(in, storage)) return false;
  const auto bias = in.take<std::uint64_t>();
  if (!in.ok() || in.left() != bias * sizeof(float) || bias > in.left()) return false;
  if (bias != 0 && bias != static_cast<std::uint64_t>(packed_bias(storage))) return false;
  storage.bias.resize(bias);
  for (float& value : storage.bias) value = in.take<float>();
  return true;
}

}  // namespace

std::string PackedLinear::description() const {
  const Storage& storage = *storage_;
  std::string out;
  put(out, std::uint32_t{kLayoutVersion});
  put(out, static_cast<std::uint8_t>(storage.backend));
  put(out, static_cast<std::uint8_t>(storage.type));
  put(out, static_cast<std::uint8_t>(storage.form));
  put(out, static_cast<std::uint8_t>(storage.keeps_values));
  put(out, static_cast<std::uint8_t>(storage.has_blocks));
  put(out, static_cast<std::uint8_t>(storage.arithmetic.number));
  put(out, static_cast<std::uint8_t>(storage.arithmetic.scales));
  put(out, storage.arithmetic.group);
  put(out, storage.arithmetic.scale);
  put(out, storage.arithmetic.largest);
  put(out, storage.n);
  put(out, storage.k);
  put(out, static_cast<std::uint32_t>(storage.parts.size()));
  for (const PackedPart& part : storage.parts) {
    put(out, static_cast<std::uint8_t>(part.format));
    put(out, part.rows);
  }
  put(out, static_cast<std::uint64_t>(storage.bias.size()));
  for (const float value : storage.bias) put(out, value);
  return out;
}

std::span<const std::byte> PackedLinear::bytes() const {
  return {storage_->packed, static_cast<std::size_t>(storage_->packed_bytes)};
}

Result<PackedLinear> PackedLinear::map(std::string_view description, std::span<const std::byte> bytes,
                                       std::shared_ptr<const void> owner) {
  PackedLinear result;
  Storage& storage = *result.storage_;
  Reader in(description);
  if (!read_description(in, storage))
    return corrupt_data("the description of a packed matrix makes no sense");
  storage.packed_bytes = plan_panels(storage);
  if (static_cast<std::uint64_t>(storage.packed_bytes) != bytes.size() ||
      reinterpret_cast<std::uintptr_t>(bytes.data()) % 64 != 0)
    return corrupt_data("a packed matrix does not match the size in its description");
  storage.packed = bytes.data();
  storage.mapped = std::move(owner);
  return result;
}

}  // namespace pagoda
