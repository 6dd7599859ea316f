#include "loader/ggml_types.h"

#include <array>

namespace pagoda {
namespace {

// Indexed by number. An empty name: removed from GGML (4, 5: Q4_2, Q4_3; 31-33: repacked Q4_0; 36-38:
// repacked IQ4_NL).
constexpr std::array<GgmlType, 42> kTypes = {{
    {"F32", 1, 4, DType::f32},
    {"F16", 1, 2, DType::f16},
    {"Q4_0", 32, 18, DType::q4_0},
    {"Q4_1", 32, 20, DType::q4_1},
    {"", 0, 0, {}},
    {"", 0, 0, {}},
    {"Q5_0", 32, 22, DType::q5_0},
    {"Q5_1", 32, 24, DType::q5_1},
    {"Q8_0", 32, 34, DType::q8_0},
    {"Q8_1", 32, 40, {}},
    {"Q2_K", 256, 84, {}},
    {"Q3_K", 256, 110, {}},
    {"Q4_K", 256, 144, DType::q4_k},
    {"Q5_K", 256, 176, DType::q5_k},
    {"Q6_K", 256, 210, DType::q6_k},
    {"Q8_K", 256, 292, {}},
    {"IQ2_XXS", 256, 66, {}},
    {"IQ2_XS", 256, 74, {}},
    {"IQ3_XXS", 256, 98, {}},
    {"IQ1_S", 256, 50, {}},
    {"IQ4_NL", 32, 18, {}},
    {"IQ3_S", 256, 110, {}},
    {"IQ2_S", 256, 82, {}},
    {"IQ4_XS", 256, 136, {}},
    {"I8", 1, 1, {}},
    {"I16", 1, 2, {}},
    {"I32", 1, 4, {}},
    {"I64", 1, 8, {}},
    {"F64", 1, 8, {}},
    {"IQ1_M", 256, 56, {}},
    {"BF16", 1, 2, DType::bf16},
    {"", 0, 0, {}},
    {"", 0, 0, {}},
    {"", 0, 0, {}},
    {"TQ1_0", 256, 54, {}},
    {"TQ2_0", 256, 66, {}},
    {"", 0, 0, {}},
    {"", 0, 0, {}},
    {"", 0, 0, {}},
    {"MXFP4", 32, 17, {}},
    {"NVFP4", 64, 36, {}},
    {"Q1_0", 128, 18, {}},
}};

}  // namespace

const GgmlType* find_ggml_type(std::uint32_t number) {
  if (number >= kTypes.size() || kTypes[number].name.empty()) return nullptr;
  return &kTypes[number];
}

std::string supported_ggml_types() {
  std::string out;
  for (const GgmlType& type : kTypes) {
    if (!type.dtype) continue;
    if (!out.empty()) out += ", ";
    out += type.name;
  }
  return out;
}

}  // namespace pagoda
