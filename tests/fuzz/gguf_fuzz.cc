// Any bytes as a GGUF file: parsed, read to the last tensor byte, decoded, turned into a ModelInfo.
// links: models kernels loader
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "kernels/dequantize.h"
#include "loader/gguf.h"
#include "models/read_config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const pagoda::Result<pagoda::GgufFile> file = pagoda::GgufFile::parse(std::as_bytes(std::span(data, size)));
  if (!file) return file.error().message().empty() ? std::abort(), 0 : 0;
  // Tensors may share bytes: read a budget of them, so that overlap cannot make one input take for ever.
  std::int64_t budget = 1 << 20;
  volatile unsigned sum = 0;
  for (const auto& [name, tensor] : file->tensors()) {
    if (tensor.bytes() < 0) std::abort();
    for (std::int64_t i = 0; i < tensor.bytes() && budget > 0; ++i, --budget) {
      sum = sum + std::to_integer<unsigned>(tensor.data[i]);
    }
    if (tensor.bytes() > 0) sum = sum + std::to_integer<unsigned>(tensor.data[tensor.bytes() - 1]);
    // The first block, from memory that ends with it.
    const pagoda::DTypeInfo& info = pagoda::dtype_info(tensor.dtype);
    const std::vector<std::byte> block(tensor.data, tensor.data + info.block_bytes);
    std::vector<float> values(static_cast<std::size_t>(info.block_elements));
    pagoda::dequantize(tensor.dtype, block.data(), info.block_elements, values.data());
  }
  const pagoda::Result<pagoda::ModelInfo> config = pagoda::read_gguf_config(*file);
  if (config && config->decoder.num_layers() < 1) std::abort();
  (void)file->check_supported();
  return 0;
}
