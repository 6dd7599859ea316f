// Types without blocks.
#include "kernels/formats/formats.h"
#include "tensor/small_floats.h"

namespace pagoda::formats {
namespace {

template <class T, auto kValue>
void each(Bytes data, std::int64_t elements, float* out) {
  for (std::int64_t i = 0; i < elements; ++i)
    out[i] = kValue(load<T>(data + i * static_cast<std::int64_t>(sizeof(T))));
}
constexpr auto kNumber = [](auto stored) { return static_cast<float>(stored); };

}  // namespace

const WeightFormat f32 = {.decode = each<float, kNumber>};
const WeightFormat f16 = {.decode = each<std::uint16_t, half_to_float>};
const WeightFormat bf16 = {.decode = each<std::uint16_t, bfloat16_to_float>};
const WeightFormat i32 = {.decode = each<std::int32_t, kNumber>};
const WeightFormat i8 = {.decode = each<std::int8_t, kNumber>};
const WeightFormat u8 = {.decode = each<std::uint8_t, kNumber>};
const WeightFormat e4m3 = {.decode = each<std::uint8_t, e4m3_value>};

}  // namespace pagoda::formats
