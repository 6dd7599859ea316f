#pragma once
// WeightStore: the source and the storage of packed matrices while a model is loaded: packed into memory, or
// mapped from a packed file. A WeightLoader requests each by its recipe, which describes its contents, and
// need not know the source. cached_weights.h chooses the file.
// Threads: one caller. Owner: the loader of a model.
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

// Weights that one load packed into memory, for reuse by further loads of the same model; each load holds
// them.
struct PackedWeights {
  std::map<std::string, PackedPiece, std::less<>> pieces;  // by recipe
  std::vector<std::shared_ptr<const void>> owners;         // own the bytes
};

class WeightStore {
 public:
  WeightStore() : WeightStore(Sources{}) {}  // packs into memory
  // Packs nothing: for a load that only checks names and shapes.
  static WeightStore checking() { return WeightStore({.checking = true}); }
  static WeightStore mapped(std::shared_ptr<const PackedFile> file) {
    return WeightStore({.file = std::move(file)});
  }
  // Packs into memory; `on_read` is called with the number of source bytes packed.
  static WeightStore packed(std::function<void(std::int64_t)> on_read) {
    return WeightStore({.on_read = std::move(on_read)});
  }
  // shared: uses matrices packed by an earlier load. sharing: packs for later loads, too, into `packed`,
  // which is complete after the load.
  static WeightStore shared(std::shared_ptr<const PackedWeights> packed) {
    return WeightStore({.shared = std::move(packed)});
  }
  static WeightStore sharing(std::shared_ptr<PackedWeights> packed,
                             std::function<void(std::int64_t)> on_read) {
    return WeightStore({.sharing = std::move(packed), .on_read = std::move(on_read)});
  }

  // Mapped: not_found or corrupt_data if the file lacks such a matrix. Otherwise the result of `pack`;
  // checking: an empty matrix.
  Result<PackedLinear> matrix(const std::string& recipe, const PackedShape& shape,
                              const std::function<Result<PackedLinear>()>& pack);
  // Returns rows of the source as stored, in memory of owners(); `copy` fills it.
  Result<TensorView> rows(const std::string& recipe, const TensorView& source,
                          const std::function<void(std::byte*)>& copy);

  bool is_mapped() const { return of_.file != nullptr; }
  // True if matrices are made from the source's bytes.
  bool reads_source() const { return of_.file == nullptr && of_.shared == nullptr && !of_.checking; }
  void note_read(std::int64_t bytes) const {
    if (of_.on_read) of_.on_read(bytes);
  }
  const std::vector<std::shared_ptr<const void>>& owners() const { return owners_; }
  // Everything packed into memory; valid while the owners exist.
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
  std::shared_ptr<const void> source() const;  // owner of find()'s results; null: matrices are packed

  Sources of_;
  std::vector<WeightPiece> pieces_;
  std::vector<std::shared_ptr<const void>> owners_;
};

}  // namespace pagoda
