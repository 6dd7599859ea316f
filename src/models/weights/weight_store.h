#pragma once
// WeightStore: where packed matrices come from while a model is loaded, and where they stay: packed into
// memory, or mapped from a packed file. A WeightLoader asks for each by its recipe, which says what it is
// made of, and whoever asks does not see the difference. Not here: which file (cached_weights.h). Threads:
// one caller. Owner: whoever loads.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "kernels/linear.h"
#include "loader/packed_file.h"
#include "models/weights/weight_writer.h"
#include "tensor/tensor_view.h"

namespace pagoda {

struct PackedShape {
  LinearType type = LinearType::float32;
  std::int64_t n = 0, k = 0;
  bool operator==(const PackedShape&) const = default;
};

// Weights that one load has packed into memory, for further loads of the same; every load keeps them.
struct PackedWeights {
  std::map<std::string, PackedPiece, std::less<>> pieces;  // by recipe
  std::vector<std::shared_ptr<const void>> owners;         // keep the bytes
};

class WeightStore {
 public:
  WeightStore() : WeightStore(Sources{}) {}  // in memory
  // Nothing is packed: of a load that only checks names and shapes.
  static WeightStore checking() { return WeightStore({.checking = true}); }
  static WeightStore mapped(std::shared_ptr<const PackedFile> file) {
    return WeightStore({.file = std::move(file)});
  }
  // In memory; `on_read` is called with the bytes of the source that were packed.
  static WeightStore packed(std::function<void(std::int64_t)> on_read) {
    return WeightStore({.on_read = std::move(on_read)});
  }
  // Packed by an earlier load; and packed for later ones, too, into `packed`, which is whole after the load.
  static WeightStore shared(std::shared_ptr<const PackedWeights> packed) {
    return WeightStore({.shared = std::move(packed)});
  }
  static WeightStore sharing(std::shared_ptr<PackedWeights> packed,
                             std::function<void(std::int64_t)> on_read) {
    return WeightStore({.sharing = std::move(packed), .on_read = std::move(on_read)});
  }

  // Mapped: not_found or corrupt_data where the file has no such matrix. Else what `pack` makes; checking: an
  // empty matrix.
  Result<PackedLinear> matrix(const std::string& recipe, const PackedShape& shape,
                              const std::function<Result<PackedLinear>()>& pack);
  // Rows of the source as they are stored, in bytes of owners(), to which `copy` brings them.
  Result<TensorView> rows(const std::string& recipe, const TensorView& source,
                          const std::function<void(std::byte*)>& copy);

  bool is_mapped() const { return of_.file != nullptr; }
  // Whether matrices are made out of the source's bytes.
  bool reads_source() const { return of_.file == nullptr && of_.shared == nullptr && !of_.checking; }
  void note_read(std::int64_t bytes) const {
    if (of_.on_read) of_.on_read(bytes);
  }
  const std::vector<std::shared_ptr<const void>>& owners() const { return owners_; }
  // Everything that was packed into memory, as long as it is there.
  std::vector<WeightPiece> take_pieces() { return std::move(pieces_); }

 private:
  struct Sources {
    std::shared_ptr<const PackedFile> file = {};
    std::shared_ptr<const PackedWeights> shared = {};
    std::shared_ptr<PackedWeights> sharing = {};
    bool checking = false;
    std::function<void(std::int64_t)> on_read = {};
  };
  explicit WeightStore(Sources of);
  const PackedPiece* find(const std::string& recipe) const;
  std::shared_ptr<const void> source() const;  // keeps what find() gives; null: matrices are packed

  Sources of_;
  std::vector<WeightPiece> pieces_;
  std::vector<std::shared_ptr<const void>> owners_;
};

}  // namespace pagoda
