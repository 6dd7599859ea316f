#pragma once
// WeightReader: takes tensors out of a ModelSource by name, checking each shape, and remembers which were
// taken. The first failure is kept and every later call gives empty results, so that a loader reads as a
// list and asks status() where it matters.
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "loader/model_source.h"
#include "tensor/tensor_view.h"

namespace pagoda {

class WeightReader {
 public:
  // Names that begin with `prefix` are also looked for with each of the others in its place, and all of them
  // behind the wrapper's prefix where the file has one.
  WeightReader(const ModelSource& source, std::string prefix, std::vector<std::string> other_prefixes);

  bool has(const std::string& name) const { return find(name) != nullptr; }
  // The file's name for it; empty: it has none.
  std::string name_in_file(const std::string& name) const;
  const TensorView* find(const std::string& name) const;  // in whatever shape; null: it is not there
  bool has_tensor(const std::string& name, const std::vector<std::int64_t>& shape) const;
  // Each of these in the shape that is asked for: outer dimensions of 1 may be left out of the file, or stand
  // there.
  TensorView matrix(const std::string& name, std::int64_t rows, std::int64_t columns) {
    return take(name, {rows, columns});
  }
  TensorView tensor(const std::string& name, const std::vector<std::int64_t>& shape) {
    return take(name, shape);
  }
  std::vector<float> vector(const std::string& name, std::int64_t size) {
    return take_values(name, {size}, size);
  }
  std::vector<float> values(const std::string& name, std::int64_t count);  // in whatever shape
  // A convolution of each channel by itself: stored [channels, 1, taps], or without the one, or with it last;
  // as [taps, channels].
  std::vector<float> channel_taps(const std::string& name, std::int64_t channels, std::int64_t taps);
  std::vector<float> optional_vector(const std::string& name, std::int64_t size) {  // empty when absent
    return has(name) ? vector(name, size) : std::vector<float>();
  }
  void ignore(const std::string& name);
  void fail(Status status);

  const Status& status() const { return status_; }
  // Tensors of the file that nobody took, less those known to hold nothing of the model's (masks, rotation
  // tables).
  std::vector<std::string> unused() const;

 private:
  // Without data on failure.
  TensorView take(const std::string& name, const std::vector<std::int64_t>& shape);
  // The same as floats; empty on failure.
  std::vector<float> take_values(const std::string& name, const std::vector<std::int64_t>& shape,
                                 std::int64_t count);

  const ModelSource& source_;
  std::string prefix_;
  std::vector<std::string> other_prefixes_;
  std::string wrapper_;                       // prefix in this file; empty: none
  std::set<std::string, std::less<>> taken_;  // as the file calls them
  Status status_;
};

}  // namespace pagoda
