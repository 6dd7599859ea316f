#pragma once
// WeightReader: takes tensors from a ModelSource by name, checking each shape, and records which were taken.
// The first failure is kept and later calls return empty results, so that loading code reads as a list and
// checks status() where it matters.
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
  // Names with `prefix` are also looked up with each alternative prefix, and with the file's wrapper prefix
  // in front, if it has one.
  WeightReader(const ModelSource& source, std::string prefix, std::vector<std::string> other_prefixes);

  bool has(const std::string& name) const { return find(name) != nullptr; }
  // Returns the file's name of the tensor; empty if absent.
  std::string name_in_file(const std::string& name) const;
  const TensorView* find(const std::string& name) const;  // in any shape; null if absent
  bool has_tensor(const std::string& name, const std::vector<std::int64_t>& shape) const;
  // Return a tensor in the requested shape; outer dimensions of 1 may differ in the file.
  TensorView matrix(const std::string& name, std::int64_t rows, std::int64_t columns) {
    return take(name, {rows, columns});
  }
  TensorView tensor(const std::string& name, const std::vector<std::int64_t>& shape) {
    return take(name, shape);
  }
  std::vector<float> vector(const std::string& name, std::int64_t size) {
    return take_values(name, {size}, size);
  }
  std::vector<float> values(const std::string& name, std::int64_t count);  // in any shape
  // A depthwise convolution, stored as [channels, 1, taps], [channels, taps] or [channels, taps, 1]; returned
  // as [taps, channels].
  std::vector<float> channel_taps(const std::string& name, std::int64_t channels, std::int64_t taps);
  std::vector<float> optional_vector(const std::string& name, std::int64_t size) {  // empty if absent
    return has(name) ? vector(name, size) : std::vector<float>();
  }
  void ignore(const std::string& name);
  void fail(Status status);

  const Status& status() const { return status_; }
  // Tensors of the file that were not taken, without those known to be irrelevant (masks, rotation tables).
  std::vector<std::string> unused() const;

 private:
  // Returns a view without data on failure.
  TensorView take(const std::string& name, const std::vector<std::int64_t>& shape);
  // The same as floats; empty on failure.
  std::vector<float> take_values(const std::string& name, const std::vector<std::int64_t>& shape,
                                 std::int64_t count);

  const ModelSource& source_;
  std::string prefix_;
  std::vector<std::string> other_prefixes_;
  std::string wrapper_;                       // prefix of multimodal models in this file; empty: none
  std::set<std::string, std::less<>> taken_;  // names in the file
  Status status_;
};

}  // namespace pagoda
