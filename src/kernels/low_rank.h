#pragma once
// Low-rank adapters beside packed matrices: what some rows of a product's input add to its outputs,
// y += scale * B (A x), before an activation, norms of heads and rotation. Rows of one input may have
// different adapters, or none: those have the bits that they have where nobody has one. Not here: adapters
// that are merged into weights (models/weights/adapted_weights.h). x is the input of the product, after its
// norm, in float32 whatever the product's arithmetic. Order: A x over K ascending in sixteen lanes; over the
// rank ascending. Source: LoRA (arXiv 2106.09685); rows with adapters of their own: arXiv 2310.18547
// (Punica). Threads: any may read.
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

namespace pagoda {

// The factors of one adapter for one packed matrix, of which several parts may have some of their own.
class LowRank {
 public:
  enum class Type { float32, bfloat16 };  // as factors are kept; all arithmetic is in float32

  LowRank() = default;  // adds nothing
  LowRank(Type type, std::int64_t k) : type_(type), k_(k) {}

  // The bytes of `rank` rows of A, and those of an add_left().
  std::int64_t right_bytes(std::int64_t rank) const { return rank * padded_k() * element_bytes(); }
  std::int64_t left_bytes(std::int64_t outputs, std::int64_t rank) const {
    return (outputs + kStrip - 1) / kStrip * kStrip * rank * element_bytes();
  }
  // Makes room for all of them, so that adding takes no more than they need.
  void reserve(std::int64_t right_bytes, std::int64_t left_bytes);

  // A, [rank, K]. Gives the place of its first row for add_left().
  std::int32_t add_right(std::span<const float> values);
  // Rows first_output, ... of the matrix, counted over all that it was packed of, get `scale` times those of
  // B, `values` [outputs, rank], times what `rank` rows of A from `first_rank` on make of x. Each row of the
  // matrix is given at most once.
  void add_left(std::int64_t first_output, std::int32_t first_rank, std::int32_t rank,
                std::span<const float> values, float scale);

  bool empty() const { return pieces_.empty(); }
  std::int64_t k() const { return k_; }
  std::int32_t rank() const { return rank_; }  // all parts' together
  std::int64_t bytes() const { return static_cast<std::int64_t>(right_.size() + left_.size()); }

  // kernels/ only:
  static constexpr std::int64_t kStrip = 16;  // outputs, and inputs, side by side
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
  // Rows of A, padded_k() wide, filled up with zeros.
  const std::byte* right(std::int32_t row) const {
    return right_.data() + row * padded_k() * element_bytes();
  }
  // Strips of 16 outputs of a piece, [rank][16] each, the last filled up with zeros.
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

// An adapter's factors, by PackedLinear::adapter_slot(); matrices behind the last have none.
struct AdapterFactors {
  std::vector<LowRank> matrices;

  const LowRank* of(std::int32_t slot) const {
    if (slot < 0 || static_cast<std::size_t>(slot) >= matrices.size()) return nullptr;
    const LowRank& found = matrices[static_cast<std::size_t>(slot)];
    return found.empty() ? nullptr : &found;
  }
};

// The adapter of each row of an input, null where it has none; null: no row has one.
using RowAdapters = const AdapterFactors* const*;

// Whether any of so many rows has factors for a matrix of one of these slots.
bool any_adapter(RowAdapters adapters, std::int64_t num_rows, std::initializer_list<std::int32_t> slots);

}  // namespace pagoda
