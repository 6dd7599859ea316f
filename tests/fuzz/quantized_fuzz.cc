// Any bytes as a quantised folder: the text before the first zero byte is config.json, the rest the weights.
// A folder that opens is brought in, read to the last byte, and given back.
// links: loader
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>

#include "loader/hf_source.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pagoda;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t end = text.find('\0');
  if (end == text.npos) return 0;
  const auto how = read_quantization_files(text.substr(0, end), {});
  if (!how) return how.error().message().find('\n') != std::string::npos ? std::abort(), 0 : 0;
  (void)how->text();
  const auto file = SafetensorsFile::parse(std::as_bytes(std::span(data, size)).subspan(end + 1));
  if (!file) return 0;
  StoredTensors stored;
  for (const FileTensor& tensor : file->tensor_list()) stored.emplace(tensor.name, tensor);
  const auto readable = readable_tensors(*how, stored);
  if (!readable) return readable.error().message().find('\n') != std::string::npos ? std::abort(), 0 : 0;
  volatile unsigned sum = 0;
  for (const auto& [name, tensor] : readable->tensors) {
    if (!readable->quantized->bring_in(tensor, nullptr).ok()) continue;
    for (std::int64_t i = 0; i < tensor.bytes(); ++i) sum = sum + std::to_integer<unsigned>(tensor.data[i]);
    (void)readable->quantized->give_back(tensor);
  }
  return 0;
}
