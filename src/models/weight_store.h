#pragma once
// WeightStore: where packed matrices come from while a model is loaded, and where they stay: packed into
// memory, mapped from a packed file, or written to one. A WeightLoader asks for each by its recipe, which
// says what it is made of, and whoever asks does not see the difference. Not here: which file
// (cached_weights.h). Threads: one caller. Owner: whoever loads.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/thread_pool.h"
#include "kernels/linear.h"
#include "loader/packed_file.h"
#include "tensor/tensor_view.h"

namespace pagoda {

struct PackedShape {
  LinearType type = LinearType::float32;
  std::int64_t n = 0, k = 0;
  bool operator==(const PackedShape&) const = default;
};

class WeightStore {
 public:
  WeightStore() = default;  // in memory
  // Nothing is packed: of a load that only checks names and shapes.
  static WeightStore checking();
  static WeightStore mapped(std::shared_ptr<const PackedFile> file);
  // Nothing stays in memory. `on_read` is told of bytes of the source that were packed.
  static WeightStore written(PackedFileWriter& writer, ThreadPool* pool,
                             std::function<void(std::int64_t)> on_read);

  // Mapped: not_found or corrupt_data where the file has no such matrix. Else what `pack` makes; written:
  // without its panels; checking: an empty matrix.
  Result<PackedLinear> matrix(const std::string& recipe, const PackedShape& shape,
                              const std::function<Result<PackedLinear>()>& pack);
  // Rows of the source as they are stored, in bytes of owners().
  Result<TensorView> rows(const std::string& recipe, const TensorView& source);

  bool is_mapped() const { return file_ != nullptr; }
  // Whether matrices are made out of the source's bytes.
  bool reads_source() const { return file_ == nullptr && !checking_; }
  void note_read(std::int64_t bytes) const {
    if (on_read_) on_read_(bytes);
  }
  const std::vector<std::shared_ptr<const void>>& owners() const { return owners_; }

 private:
  std::shared_ptr<const PackedFile> file_;
  PackedFileWriter* writer_ = nullptr;
  bool checking_ = false;
  ThreadPool* pool_ = nullptr;
  std::function<void(std::int64_t)> on_read_;
  std::vector<std::shared_ptr<const void>> owners_;
};

}  // namespace pagoda
