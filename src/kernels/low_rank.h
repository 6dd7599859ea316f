#pragma once
// Low-rank adapters beside packed matrices: y += scale * B (A x) for some rows of a product's input, before
// an activation, norms of heads and rotation. Each row of an input may have its own adapter or none; rows
// without an adapter have the same bits as in a batch without adapters. Not here: adapters merged into
// weights (models/weights/adapted_weights.h). x is the input of the product, after its norm, in float32
// whatever the product's arithmetic. Order: A x over K ascending in sixteen lanes; then over the rank
// ascending. Source: LoRA (arXiv 2106.09685); different adapters in one batch: arXiv 2310.18547 (Punica).
// Threads: any thread may read.
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

namespace pagoda {

// The factors of one adapter for one packed matrix; several parts of the matrix may have their own factors.
class LowRank {
 public:
  enum class Type { float32, bfloat16 };  // storage type of the factors; all arithmetic is in float32

  LowRank() = default;  // adds nothing
  LowRank(Type type, std::int64_t k) : type_(type), k_(k) {}

  // The bytes of `rank` rows of A, and the bytes of one add_left().
  std::int64_t right_bytes(std::int64_t rank) const { return rank * padded_k() * element_bytes(); }
  std::int64_t left_bytes(std::int64_t outputs, std::int64_t rank) const {
    return (outputs + kStrip - 1) / kStrip * kStrip * rank * element_bytes();
  }
  // Reserves memory for all factors, so that adding them allocates no more than needed.
  void reserve(std::int64_t right_bytes, std::int64_t left_bytes);

  // Adds A, [rank, K]. Returns the index of its first row, for add_left().
  std::int32_t add_right(std::span<const float> values);
  // Adds B, `values` [outputs, rank], for outputs first_output, ... of the matrix, counted over all the
  // weights it was packed from: each output gets `scale` times its row of B times A x, where A is the `rank`
  // rows from `first_rank` on. Each output may be given at most once.
  void add_left(std::int64_t first_output, std::int32_t first_rank, std::int32_t rank,
                std::span<const float> values, float scale);

  bool empty() const { return pieces_.empty(); }
  std::int64_t k() const { return k_; }
  std::int32_t rank() const { return rank_; }  // sum over all parts
  std::int64_t bytes() const { return static_cast<std::int64_t>(right_.size() + left_.size()); }

  // Only for kernels/:
  static constexpr std::int64_t kStrip = 16;  // outputs, or inputs, side by side
  struct Piece {
    std::int64_t first_output = 0, outputs = 0;
    std::int32_t first_rank = 0, rank = 0;
    float scale = 1;
    std::size_t offset = 0;  // in left()
  };
  std::span<const Piece> pieces() const { return pieces_; }
  Type type() const { return type_; }
  std::int64_t element_bytes() const { return type_ == Type::float32 ? 4 : 2; }
  std::int64_t padded_k() const { return (k_ + kStrip - 1) / kStrip * kStrip; }
  // Row `row` of A, padded with zeros to padded_k().
  const std::byte* right(std::int32_t row) const {
    return right_.data() + row * padded_k() * element_bytes();
  }
  // Strip `strip` of 16 outputs of a piece, [rank][16], the last one padded with zeros.
  const std::byte* left(const Piece& piece, std::int64_t strip) const {
    return left_.data() + piece.offset +
           static_cast<std::size_t>(strip * piece.rank * kStrip * element_bytes());
  }
  float right_value(std::int32_t row, std::int64_t input) const;
  float left_value(const Piece& piece, std::int64_t output, std::int32_t rank) const;

 private:
  void put(std::vector<std::byte>& to, std::size_t at, float value) const;
  float value(const std::vector<std::byte>& of, std::size_t at) const;

  Type type_ = Type::float32;
  std::int64_t k_ = 0;
  std::int32_t rank_ = 0;
  std::vector<Piece> pieces_;
  std::vector<std::byte> right_, left_;
};

// An adapter's factors, indexed by PackedLinear::adapter_slot(); matrices beyond the end have none.
struct AdapterFactors {
  std::vector<LowRank> matrices;

  const LowRank* of(std::int32_t slot) const {
    if (slot < 0 || static_cast<std::size_t>(slot) >= matrices.size()) return nullptr;
    const LowRank& found = matrices[static_cast<std::size_t>(slot)];
    return found.empty() ? nullptr : &found;
  }
};

// The adapter of each row of an input, null for rows without one. A null pointer means that no row has one.
using RowAdapters = const AdapterFactors* const*;

// True if any of the rows has factors for a matrix with one of these slots.
bool any_adapter(RowAdapters adapters, std::int64_t num_rows, std::initializer_list<std::int32_t> slots);

}  // namespace pagoda
