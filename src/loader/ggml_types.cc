#include "loader/ggml_types.h"

#include <array>
#include <iterator>

namespace pagoda {
namespace {

// GGML's types that are not in tensor/dtypes.def. GGML removed numbers that are in neither (4, 5: Q4_2, Q4_3;
// 31-33: repacked Q4_0; 36-38: repacked IQ4_NL).
struct Unread {
  std::uint32_t number;
  GgmlType type;
};
constexpr Unread kUnread[] = {
    {9, {"Q8_1", 32, 40, {}}}, {15, {"Q8_K", 256, 292, {}}}, {24, {"I8", 1, 1, {}}},  {25, {"I16", 1, 2, {}}},
    {26, {"I32", 1, 4, {}}},   {27, {"I64", 1, 8, {}}},      {28, {"F64", 1, 8, {}}},
};

// By number; an empty name: no such type.
constexpr auto kGgmlTypes = [] {
  std::array<GgmlType, 43> types{};
  for (const Unread& unread : kUnread) types[unread.number] = unread.type;
  for (std::size_t i = 0; i < std::size(kDTypes); ++i) {
    const DTypeInfo& info = kDTypes[i];
    if (info.gguf < 0) continue;
    types[static_cast<std::size_t>(info.gguf)] = {info.name, info.block_elements, info.block_bytes,
                                                  static_cast<DType>(i)};
  }
  return types;
}();

}  // namespace

const GgmlType* find_ggml_type(std::uint32_t number) {
  if (number >= kGgmlTypes.size() || kGgmlTypes[number].name.empty()) return nullptr;
  return &kGgmlTypes[number];
}

std::string supported_ggml_types() {
  std::string out;
  for (const GgmlType& type : kGgmlTypes) {
    if (!type.dtype) continue;
    if (!out.empty()) out += ", ";
    out += type.name;
  }
  return out;
}

}  // namespace pagoda
