#include "kernels/device/device_adapters.h"

#include <algorithm>
#include <cstring>

#include "base/assign_or_return.h"
#include "base/check.h"
#include "kernels/device/weight_upload.h"

namespace pagoda {
namespace {

using device::LowRankFactors;
using device::LowRankPiece;

constexpr std::int64_t kAlignment = 16;

std::int64_t aligned(std::int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// All of a matrix's rows of A are contiguous, and so are all of its pieces of B.
std::span<const std::byte> right_of(const LowRank& matrix) {
  if (matrix.empty()) return {};
  return {matrix.right(0), static_cast<std::size_t>(matrix.right_bytes(matrix.rank()))};
}
std::span<const std::byte> left_of(const LowRank& matrix) {
  if (matrix.empty()) return {};
  const LowRank::Piece& first = matrix.pieces().front();
  return {matrix.left(first, 0) - first.offset,
          static_cast<std::size_t>(matrix.bytes() - matrix.right_bytes(matrix.rank()))};
}

// The parts of a copy: the table of matrices, all pieces, then the factors of one matrix after another.
struct Places {
  std::int64_t pieces = 0, factors = 0, end = 0;
};
Places places_of(const AdapterFactors& adapter) {
  std::int64_t num_pieces = 0, bytes = 0;
  for (const LowRank& matrix : adapter.matrices) {
    num_pieces += std::ssize(matrix.pieces());
    bytes += aligned(std::ssize(right_of(matrix))) + aligned(std::ssize(left_of(matrix)));
  }
  Places out;
  out.pieces = aligned(std::ssize(adapter.matrices) * static_cast<std::int64_t>(sizeof(LowRankFactors)));
  out.factors = out.pieces + aligned(num_pieces * static_cast<std::int64_t>(sizeof(LowRankPiece)));
  out.end = out.factors + bytes;
  return out;
}

}  // namespace

Result<DeviceAdapters::Placed> DeviceAdapters::place(const Held& held) {
  const Places places = places_of(*held);
  Placed out = {.of = held.get(), .held = held, .memory = {}};
  PAGODA_ASSIGN_OR_RETURN(out.memory,
                          device::DeviceArray<std::byte>::create(device_, places.end, "adapters"));
  std::byte* const base = out.memory.data();
  std::vector<LowRankFactors> table;
  std::vector<LowRankPiece> pieces;
  WeightUpload upload(device_, stream_, nullptr);
  std::byte* next = base + places.factors;
  for (const LowRank& matrix : held->matrices) {
    LowRankFactors& factors = table.emplace_back();
    if (matrix.empty()) continue;
    std::byte* const left = next + aligned(std::ssize(right_of(matrix)));
    factors = {.right = next,
               .pieces = reinterpret_cast<const LowRankPiece*>(base + places.pieces) + pieces.size(),
               .rank = matrix.rank(),
               .width = static_cast<std::int32_t>(matrix.padded_k()),
               .num_pieces = static_cast<std::int32_t>(matrix.pieces().size()),
               .bfloat16 = matrix.type() == LowRank::Type::bfloat16 ? 1 : 0};
    out.most_ranks = std::max(out.most_ranks, matrix.rank());
    for (const LowRank::Piece& piece : matrix.pieces())
      pieces.push_back({.left = left + piece.offset,
                        .first_output = static_cast<std::int32_t>(piece.first_output),
                        .outputs = static_cast<std::int32_t>(piece.outputs),
                        .first_rank = piece.first_rank,
                        .rank = piece.rank,
                        .scale = piece.scale});
    PAGODA_RETURN_IF_ERROR(upload.send(next, right_of(matrix)));
    PAGODA_RETURN_IF_ERROR(upload.send(left, left_of(matrix)));
    next = left + aligned(std::ssize(left_of(matrix)));
  }
  PAGODA_RETURN_IF_ERROR(upload.send(base, std::as_bytes(std::span(table))));
  PAGODA_RETURN_IF_ERROR(upload.send(base + places.pieces, std::as_bytes(std::span(pieces))));
  PAGODA_RETURN_IF_ERROR(upload.finish());
  return out;
}

template <class Which>
Status DeviceAdapters::drop(Which which) {
  if (std::ranges::none_of(placed_, which)) return ok_status();
  PAGODA_RETURN_IF_ERROR(device_.synchronize(stream_));
  std::erase_if(placed_, which);
  return ok_status();
}

Status DeviceAdapters::bring(std::span<const Held> held) {
  PAGODA_RETURN_IF_ERROR(drop([](const Placed& each) { return each.held.expired(); }));
  for (const Held& each : held) {
    if (std::ranges::find(placed_, each.get(), &Placed::of) != placed_.end()) continue;
    Result<Placed> placed = place(each);
    if (!placed && placed.error().code() == StatusCode::resource_exhausted) {
      const auto has_no_row = [&](const Placed& other) {
        return std::ranges::none_of(held, [&](const Held& own) { return own.get() == other.of; });
      };
      PAGODA_RETURN_IF_ERROR(drop(has_no_row));
      placed = place(each);
    }
    if (!placed) return placed.error();
    placed_.push_back(*std::move(placed));
  }
  return ok_status();
}

const LowRankFactors* DeviceAdapters::of(const AdapterFactors& factors) const {
  const auto found = std::ranges::find(placed_, &factors, &Placed::of);
  CHECK(found != placed_.end());
  return reinterpret_cast<const LowRankFactors*>(found->memory.data());
}

std::int32_t DeviceAdapters::most_ranks() const {
  std::int32_t most = 0;
  for (const Placed& each : placed_) most = std::max(most, each.most_ranks);
  return most;
}

std::int64_t DeviceAdapters::size_bytes() const {
  std::int64_t bytes = 0;
  for (const Placed& each : placed_) bytes += each.memory.size_bytes();
  return bytes;
}

}  // namespace pagoda
