// bitsandbytes' 4 bits: codes of a 16-value table, stored in the file, in blocks of consecutive elements
// regardless of rows; two codes per byte, the first in the upper half. A block's largest magnitude is a
// float, or itself a code of a table with its own magnitudes. A tensor of JSON holds the rest.
#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <cstring>

#include "base/assign_or_return.h"
#include "base/strings.h"
#include "loader/json_object.h"
#include "loader/printable.h"
#include "loader/quantized_weight.h"
#include "tensor/shape_text.h"
#include "tensor/small_floats.h"

namespace pagoda {
namespace {

namespace json = boost::json;

struct Blocks {
  FileTensor codes;
  std::int64_t size = 64, elements = 0;
  float table[16] = {};
  ScaleValues magnitudes = {};
  // If magnitudes are codes themselves: the codes, their table, the magnitudes of blocks of codes, and an
  // offset.
  const std::uint8_t* magnitude_codes = nullptr;
  std::vector<float> nested_table = {};
  ScaleValues nested_magnitudes = {};
  std::int64_t nested_size = 256;
  float offset = 0;

  Status magnitude(std::int64_t block, float& value) const {
    if (magnitude_codes == nullptr) return magnitudes.read(block, value);
    PAGODA_RETURN_IF_ERROR(nested_magnitudes.read(block / nested_size, value));
    value = nested_table[magnitude_codes[block]] * value + offset;
    return ok_status();
  }
};

// The checked fields of the JSON.
struct State {
  std::vector<std::int64_t> shape;
  std::int64_t block_size = 0, nested_block_size = 0;
  float nested_offset = 0;
};

Result<State> read_state(const FileTensor& tensor) {
  constexpr std::int64_t kMaxBytes = 1 << 16, kMaxExtent = std::int64_t{1} << 40;
  const auto wrong = [&](std::string_view what) { return bad_tensor(tensor.name, "", what); };
  if (tensor.type != "U8" || tensor.bytes > kMaxBytes) return wrong("is no description of 4-bit weights");
  const Result<json::object> object = parse_json_object(
      {reinterpret_cast<const char*>(tensor.data), static_cast<std::size_t>(tensor.bytes)}, "it");
  if (!object) return object.error().annotate(concat("tensor '", printable(tensor.name), "'"));
  const auto integer = [&](std::string_view name) -> std::int64_t {
    const json::value* value = object->if_contains(name);
    return value != nullptr && value->is_int64() ? value->get_int64() : 0;
  };
  State out{
      .shape = {}, .block_size = integer("blocksize"), .nested_block_size = integer("nested_blocksize")};
  if (out.block_size < 1 || out.block_size > 65536) return wrong("has no 'blocksize'");
  const json::value* shape = object->if_contains("shape");
  const json::array* extents = shape == nullptr ? nullptr : shape->if_array();
  if (extents == nullptr || extents->size() != 2) return wrong("has no 'shape' of a matrix");
  for (const json::value& extent : *extents) {
    if (!extent.is_int64() || extent.get_int64() < 1 || extent.get_int64() > kMaxExtent)
      return wrong("has a 'shape' that cannot be");
    out.shape.push_back(extent.get_int64());
  }
  if (const json::value* offset = object->if_contains("nested_offset");
      offset != nullptr && offset->is_number())
    out.nested_offset = offset->to_number<float>();
  if (!std::isfinite(out.nested_offset)) return wrong("has a 'nested_offset' that is not a number");
  return out;
}

// Reads a table of `count` values.
Result<std::vector<float>> read_table(const StoredTensors& stored, const std::string& name,
                                      std::int64_t count) {
  PAGODA_ASSIGN_OR_RETURN(const ScaleValues values, ScaleValues::find(stored, name));
  if (values.count() != count) return bad_tensor(name, "has ", values.count(), " values, not ", count);
  std::vector<float> out(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i)
    PAGODA_RETURN_IF_ERROR(values.read(i, out[static_cast<std::size_t>(i)]));
  return out;
}

// Reads the blocks' magnitudes: F32, or codes.
Status read_magnitudes(const StoredTensors& stored, const std::string& name, const State& state,
                       std::vector<std::string>& parts, Blocks& out) {
  parts.push_back(name + ".absmax");
  PAGODA_ASSIGN_OR_RETURN(const FileTensor magnitudes, stored_tensor(stored, parts.back()));
  const std::int64_t blocks = (out.elements + out.size - 1) / out.size;
  const bool nested = magnitudes.type == "U8";
  if (magnitudes.bytes != blocks * (nested ? 1 : 4) || (!nested && magnitudes.type != "F32"))
    return wrong_shape(magnitudes, concat("where there are ", blocks, " blocks"));
  if (!nested) {
    PAGODA_ASSIGN_OR_RETURN(out.magnitudes, ScaleValues::find(stored, parts.back()));
    return ok_status();
  }
  out.magnitude_codes = reinterpret_cast<const std::uint8_t*>(magnitudes.data);
  out.offset = state.nested_offset;
  out.nested_size = state.nested_block_size;
  if (out.nested_size < 1 || out.nested_size > 65536)
    return bad_tensor(name, "has nested blocks of ", out.nested_size);
  parts.push_back(name + ".nested_quant_map");
  PAGODA_ASSIGN_OR_RETURN(out.nested_table, read_table(stored, parts.back(), 256));
  parts.push_back(name + ".nested_absmax");
  PAGODA_ASSIGN_OR_RETURN(out.nested_magnitudes, ScaleValues::find(stored, parts.back()));
  if (out.nested_magnitudes.count() != (blocks + out.nested_size - 1) / out.nested_size)
    return bad_tensor(parts.back(), "has ", out.nested_magnitudes.count(), " values for ", blocks, " blocks");
  return ok_status();
}

Status decode_blocks(const Blocks& of, std::int64_t first, std::int64_t count, float* values) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(of.codes.data);
  for (std::int64_t at = first; at < first + count;) {
    float magnitude = 0;
    PAGODA_RETURN_IF_ERROR(of.magnitude(at / of.size, magnitude));
    const std::int64_t end = std::min(first + count, (at / of.size + 1) * of.size);
    for (; at < end; ++at) *values++ = of.table[bytes[at / 2] >> (at % 2 == 0 ? 4 : 0) & 15] * magnitude;
  }
  return ok_status();
}

// DType::nf4: the magnitude precedes 64 codes; codes i and i + 16 of 32 share a byte.
Status decode_nf4(const Blocks& of, std::int64_t first, std::int64_t count, std::byte* to) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(of.codes.data);
  const auto code = [&](std::int64_t at) { return bytes[at / 2] >> (at % 2 == 0 ? 4 : 0) & 15; };
  for (std::int64_t at = first; at < first + count; at += 32) {
    if (at % 64 == 0) {
      float magnitude = 0;
      PAGODA_RETURN_IF_ERROR(of.magnitude(at / of.size, magnitude));
      std::memcpy(to, &magnitude, sizeof magnitude);
      to += sizeof magnitude;
    }
    for (int i = 0; i < 16; ++i) *to++ = static_cast<std::byte>(code(at + i) | code(at + i + 16) << 4);
  }
  return ok_status();
}

}  // namespace

Result<QuantizedWeight> bitsandbytes_weight(const Quantization&, const StoredTensors& stored,
                                            const FileTensor& weight) {
  const std::string& name = weight.name;
  const bool is_nf4 = stored.contains(name + ".quant_state.bitsandbytes__nf4");
  QuantizedWeight out{
      .number = is_nf4 ? QuantizedNumber::nf4 : QuantizedNumber::fp4,
      .shape = {},
      .parts = {name, name + ".quant_state.bitsandbytes__" + (is_nf4 ? "nf4" : "fp4"), name + ".quant_map"}};
  PAGODA_ASSIGN_OR_RETURN(const State state, read_state(stored.find(out.parts[1])->second));
  out.shape = state.shape;
  Blocks blocks{.codes = weight, .size = state.block_size};
  if (__builtin_mul_overflow(state.shape[0], state.shape[1], &blocks.elements) ||
      weight.bytes != (blocks.elements + 1) / 2)
    return wrong_shape(weight, concat("where its description says ", shape_text(state.shape)));
  PAGODA_ASSIGN_OR_RETURN(const auto table, read_table(stored, out.parts[2], 16));
  std::ranges::copy(table, blocks.table);
  PAGODA_RETURN_IF_ERROR(read_magnitudes(stored, name, state, out.parts, blocks));
  const bool as_stored =
      std::ranges::equal(blocks.table, kNf4Values) && blocks.size % 64 == 0 && out.columns() % 64 == 0;
  if (as_stored) out.dtype = DType::nf4;
  out.decode = [blocks = std::move(blocks), columns = out.columns(), as_stored](
                   std::int64_t first, std::int64_t count, std::byte* to) {
    return as_stored ? decode_nf4(blocks, first * columns, count * columns, to)
                     : decode_blocks(blocks, first * columns, count * columns, reinterpret_cast<float*>(to));
  };
  return out;
}

}  // namespace pagoda
