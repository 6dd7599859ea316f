#pragma once
// The sizes that kernels and those who launch them agree on.
#include <cstdint>

namespace pagoda::device {

inline constexpr std::int32_t kRowThreads = 128;  // of a row's block (rows.cuh)

inline constexpr std::int32_t kLinearTile = 16, kLinearDepth = 32;
inline constexpr std::uint32_t kLinearSharedBytes = 2 * kLinearTile * (kLinearDepth + 1) * sizeof(float);

// Of attention by tiles (attention_tiles.cuh), for heads of up to `padded`: 64, 128 or 256.
inline constexpr std::int32_t kTileWarps = 4;
constexpr std::int32_t tile_rows(std::int32_t padded) {
  return padded > 128 ? 32 : 64;
}  // query heads of tokens
constexpr std::int32_t tile_tokens(std::int32_t padded) { return padded > 128 ? 16 : 32; }  // of the context
// Elements from a token to the next in shared memory: eight more, so that eight tokens lie in different
// banks.
constexpr std::int32_t tile_stride(std::int32_t padded) { return padded + 8; }
// Keys and values of two tiles.
constexpr std::uint32_t tile_shared_bytes(std::int32_t padded) {
  return static_cast<std::uint32_t>(2 * 2 * tile_tokens(padded) * tile_stride(padded) * 2);
}

// Of a row's choice of experts (mixture.cuh).
inline std::uint32_t route_shared_bytes(std::int32_t experts, std::int32_t groups) {
  return static_cast<std::uint32_t>(3 * experts + 2 * groups) * static_cast<std::uint32_t>(sizeof(float));
}

inline constexpr std::int32_t kSampleThreads = 256;  // of a row of logits (sampling.cuh)
inline constexpr std::uint32_t kSampleSharedBytes = (kSampleThreads + 4) * sizeof(std::uint64_t);

}  // namespace pagoda::device
