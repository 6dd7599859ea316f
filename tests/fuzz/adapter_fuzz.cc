// Any bytes as an adapter: a GGUF file, or else a PEFT folder, whose adapter_config.json is the text before
// the first zero byte, and whose weights are the rest. Each part of each change is read to its last byte.
// links: loader
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>

#include "loader/adapter.h"

namespace pagoda {
namespace {

Result<Adapter> adapter_of(std::string_view text) {
  const auto bytes = [](std::string_view part) { return std::as_bytes(std::span(part.data(), part.size())); };
  if (text.starts_with("GGUF")) {
    const auto file = GgufFile::parse(bytes(text));
    return file ? Adapter::parse(*file, 1) : file.error();
  }
  const std::size_t end = text.find('\0');
  if (end == text.npos) return invalid_argument("no weights");
  const auto file = SafetensorsFile::parse(bytes(text.substr(end + 1)));
  return file ? Adapter::parse(std::string(text.substr(0, end)), *file, 1) : file.error();
}

std::uint64_t sum_of(const TensorView& tensor) {
  std::uint64_t sum = 0;
  for (const std::byte byte : stored_bytes(tensor)) sum += std::to_integer<std::uint64_t>(byte);
  return sum;
}

}  // namespace
}  // namespace pagoda

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pagoda;
  const auto adapter = adapter_of({reinterpret_cast<const char*>(data), size});
  if (!adapter) return adapter.error().message().empty() ? std::abort(), 0 : 0;
  volatile std::uint64_t sum = 0;
  std::size_t budget = std::size_t{1} << 20;  // tensors may share bytes
  for (const auto& [name, change] : adapter->changes()) {
    if (change.left.has_value() != change.right.has_value()) std::abort();
    if (change.left && change.left->columns() != change.right->rows()) std::abort();
    if (change.left && change.left->columns() < 1) std::abort();
    const TensorView* const parts[] = {
        change.left ? &change.left->stored : nullptr, change.right ? &change.right->stored : nullptr,
        change.whole ? &*change.whole : nullptr, change.sum ? &*change.sum : nullptr,
        change.row_lengths ? &*change.row_lengths : nullptr};
    for (const TensorView* const part : parts) {
      if (part == nullptr || stored_bytes(*part).size() > budget) continue;
      budget -= stored_bytes(*part).size();
      sum = sum + sum_of(*part);
    }
  }
  return 0;
}
