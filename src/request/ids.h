#pragma once
// Strong types for the ids that are shared between folders.
#include <cstdint>
#include <functional>

namespace pagoda {

using TokenId = std::int32_t;
enum class RequestId : std::uint64_t {};   // unique in a process; assigned by the submitter
enum class SequenceId : std::uint64_t {};  // unique for the lifetime of an engine
enum class BlockId : std::int32_t {};      // a physical KV block
enum class SwapBlockId : std::int32_t {};  // a block of the swap space

inline std::int32_t index(BlockId id) { return static_cast<std::int32_t>(id); }

}  // namespace pagoda
