// Any bytes as a .safetensors file: parsed and read to the last tensor byte.
// links: loader
#include <cstdint>
#include <cstdlib>
#include <span>

#include "loader/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto file = pagoda::SafetensorsFile::parse(std::as_bytes(std::span(data, size)));
  if (!file) return file.error().message().empty() ? std::abort(), 0 : 0;
  volatile unsigned sum = 0;
  std::int64_t total = 0;
  for (const auto& [name, tensor] : file->tensors()) {
    for (std::int64_t i = 0; i < tensor.bytes(); ++i) sum = sum + std::to_integer<unsigned>(tensor.data[i]);
    total += tensor.bytes();
  }
  if (total > static_cast<std::int64_t>(size)) std::abort();  // tensors never overlap
  (void)file->check_supported();
  return 0;
}
