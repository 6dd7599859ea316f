#pragma once
// Strong types for the identities that cross folders.
#include <cstdint>
#include <functional>

namespace pagoda {

using TokenId = std::int32_t;
enum class RequestId : std::uint64_t {};   // unique in a process; given by whoever submits
enum class SequenceId : std::uint64_t {};  // unique in an engine's life
enum class BlockId : std::int32_t {};      // a physical KV block
enum class SwapBlockId : std::int32_t {};  // a block of the swap space

inline std::int32_t index(BlockId id) { return static_cast<std::int32_t>(id); }

}  // namespace pagoda
