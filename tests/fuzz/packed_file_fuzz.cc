// Any bytes as a packed file, with the checksums made right so that the index behind them is reached; and
// what it says of a matrix, mapped and multiplied.
// links: loader kernels
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "base/xxh64.h"
#include "kernels/linear.h"
#include "loader/packed_file.h"

namespace {

constexpr std::size_t kHeader = 64, kFirstPiece = 4096;

void put(std::vector<std::byte>& bytes, std::size_t at, std::uint64_t value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

// The index is the input; what its pieces hold is zeros.
std::vector<std::byte> file_of(std::span<const std::byte> index) {
  std::vector<std::byte> bytes(2 * kFirstPiece);
  bytes.insert(bytes.end(), index.begin(), index.end());
  put(bytes, 0, 0x314B434150474450u);
  put(bytes, 8, bytes.size());
  put(bytes, 16, 2 * kFirstPiece);
  put(bytes, 24, index.size());
  put(bytes, 32, pagoda::xxh64(index));
  put(bytes, 56, pagoda::xxh64(std::span(bytes).first(kHeader - 8)));
  return bytes;
}

void multiply(std::string_view description) {
  // As many zeros as any small matrix has; others do not fit.
  for (const std::size_t size : {64u, 128u, 704u, 1088u, 4096u}) {
    const std::shared_ptr<std::byte> bytes(static_cast<std::byte*>(std::aligned_alloc(64, size)), std::free);
    std::memset(bytes.get(), 0, size);
    auto matrix = pagoda::PackedLinear::map(description, {bytes.get(), size}, bytes);
    if (!matrix) continue;
    if (matrix->k() > 1 << 16 || matrix->n() > 1 << 16) std::abort();  // more than there are bytes for
    const std::vector<float> x(static_cast<std::size_t>(matrix->k()), 1.0f);
    std::vector<float> y(static_cast<std::size_t>(matrix->n()));
    pagoda::LinearOutput output;
    output.activation = pagoda::Activation::silu;
    linear({.level = pagoda::CpuLevel::portable}, *matrix, pagoda::LinearInput::rows(x.data(), matrix->k()),
           1, pagoda::Buffer::of(y.data(), matrix->n()), output);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto input = std::as_bytes(std::span(data, size));
  (void)pagoda::PackedFile::parse(input, "", nullptr);
  const std::vector<std::byte> bytes = file_of(input);
  if (const auto file = pagoda::PackedFile::parse(bytes, "", nullptr)) {
    if (const pagoda::PackedPiece* piece = (*file)->find("")) {
      volatile unsigned sum = 0;
      for (const std::byte one : piece->bytes) sum = sum + std::to_integer<unsigned>(one);
    }
  }
  multiply({reinterpret_cast<const char*>(data), size});
  return 0;
}
