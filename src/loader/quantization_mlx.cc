// Quantization: MLX's: one scheme for all modules, and under a module's name a different one for that module.
// Source: mlx-lm's utils.py and MLX's nn.quantize.
#include <algorithm>
#include <iterator>

#include "base/assign_or_return.h"
#include "loader/printable.h"
#include "loader/quantization_fields.h"

namespace pagoda {
namespace {

struct Mode {
  std::string_view name;
  std::int64_t bits, group;  // defaults; for floats the only valid values
  QuantizedNumber number;    // for floats
};
constexpr Mode kModes[] = {{"affine", 4, 64, QuantizedNumber::int4},
                           {"mxfp4", 4, 32, QuantizedNumber::mxfp4},
                           {"mxfp8", 8, 32, QuantizedNumber::mxfp8},
                           {"nvfp4", 4, 16, QuantizedNumber::nvfp4}};

Result<WeightScheme> read_scheme(const Fields& fields) {
  const std::string name = fields.word("mode", "affine");
  const auto* const mode = std::ranges::find(kModes, name, &Mode::name);
  if (mode == std::end(kModes))
    return refuse(QuantizationMethod::mlx, concat("in the mode '", printable(name, 40), "'"));
  const std::int64_t bits = fields.size("bits", mode->bits), group = fields.size("group_size", mode->group);
  if (group < 1) fields.fail("group_size", "positive");
  const WeightScheme scheme{.number = mode->number, .group_size = static_cast<std::int32_t>(group)};
  if (name != "affine")
    return bits == mode->bits && group == mode->group
               ? Result(scheme)
               : refuse(QuantizationMethod::mlx, concat(name, " in ", bits, " bits and groups of ", group));
  const std::optional<QuantizedNumber> number = integer_of(bits);
  if (!number) return refuse(QuantizationMethod::mlx, concat("in ", bits, " bits"));
  WeightScheme integers = scheme;
  integers.number = *number;
  return integers;
}

}  // namespace

Status read_mlx(const Fields& fields, Quantization& out) {
  PAGODA_ASSIGN_OR_RETURN(const WeightScheme most, read_scheme(fields));
  out.schemes.push_back(most);
  Status status;
  for (const auto& [name, value] : fields.object()) {
    if (!value.is_object()) continue;  // false: not quantised
    PAGODA_ASSIGN_OR_RETURN(const WeightScheme own, read_scheme(Fields(value.get_object(), status)));
    auto place = std::ranges::find(out.schemes, own);
    if (place == out.schemes.end()) place = out.schemes.insert(place, own);
    out.modules.emplace(name, place - out.schemes.begin());
  }
  return status;
}

}  // namespace pagoda
