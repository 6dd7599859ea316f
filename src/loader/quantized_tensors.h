#pragma once
// QuantizedTensors: the quantised weights of a folder under the names and in the shapes that an unquantised
// one has, so that families, loaders and devices need to know of no method. Their bytes are in memory that is
// only reserved: bring_in() makes rows of a weight out of what is stored, give_back() takes their memory away
// again. Reading what was not brought in ends the program. So are weights whose rows are stored in another
// order than the model's.
// Threads: any may call; a weight's memory stays until each that brought rows of it in has given them back.
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/thread_pool.h"
#include "loader/quantized_weight.h"
#include "tensor/tensor_view.h"

namespace pagoda {

// `how` as config.json says it or, where that says nothing, as the tensors alone tell it.
// unimplemented: they are quantised and do not tell how.
Result<Quantization> quantization_by_tensors(const Quantization& how, const StoredTensors& stored);

// Scales of keys and values in 8 bits, by their names: a folder's of any kind of weights.
bool is_kv_scale(std::string_view name);

// Weights by name whose heads, of so many rows, have rows that alternate between the head's halves.
using AlternatingRows = std::map<std::string, std::int64_t, std::less<>>;

class QuantizedTensors {
 public:
  // All quantised weights among `stored`, which must stay where it points to, and those of `alternating`.
  // corrupt_data: their parts do not fit together; resource_exhausted: no room for their addresses.
  static Result<std::unique_ptr<QuantizedTensors>> find(const Quantization& how, const StoredTensors& stored,
                                                        const AlternatingRows& alternating = {});
  ~QuantizedTensors();
  QuantizedTensors(const QuantizedTensors&) = delete;
  QuantizedTensors& operator=(const QuantizedTensors&) = delete;

  const std::map<std::string, TensorView, std::less<>>& tensors() const { return tensors_; }
  // Stored tensors that the weights are made of, or that are of no use beside them: scales of activations,
  // and those of keys and values.
  const std::set<std::string, std::less<>>& parts() const { return parts_; }

  // The inputs that the scheme multiplies `tensor`, a weight or rows of one, with.
  LinearArithmetic inputs_of(const TensorView& tensor) const;

  // Makes the rows that `tensor`, a weight or rows of one, has. Other tensors: nothing to do.
  Status bring_in(const TensorView& tensor, ThreadPool* pool) const;
  // Once for each bring_in(). The last one makes the weight's memory the system's again, and returns the
  // stored bytes that may be given back of the file.
  std::vector<TensorView> give_back(const TensorView& tensor) const;

 private:
  struct Place {
    QuantizedWeight weight;
    std::byte* begin = nullptr;
    std::vector<TensorView> stored;  // its parts, in bytes
    mutable std::int32_t users = 0;
    mutable std::vector<bool> ready = {};  // by row; empty: none is
    std::int64_t row_bytes() const { return dtype_bytes(weight.dtype, weight.columns()); }
  };
  QuantizedTensors() = default;
  const Place* place_of(const TensorView& tensor) const;
  static Status decode_rows(const Place& place, std::int64_t first, std::int64_t end, ThreadPool* pool);

  std::map<std::string, TensorView, std::less<>> tensors_;
  std::set<std::string, std::less<>> parts_;
  std::vector<Place> places_;  // by their addresses
  mutable std::mutex mutex_;   // guards users and ready
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace pagoda
