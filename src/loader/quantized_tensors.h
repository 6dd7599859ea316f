#pragma once
// QuantizedTensors: the quantised weights of a folder under the names and shapes of unquantised ones, so that
// families, loaders and devices need not know any method. Address space is reserved for them; bring_in()
// decodes rows of a weight from the stored data, give_back() releases their memory. Reading rows that were
// not brought in crashes the program. Weights whose rows are stored in another order than the model's are
// handled in the same way.
// Threads: any; a weight's memory stays until every caller of bring_in() has given its rows back.
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

// Returns `how` from config.json or, if that is empty, the quantisation inferred from the tensors.
// unimplemented: they are quantised, but do not show how.
Result<Quantization> quantization_by_tensors(const Quantization& how, const StoredTensors& stored);

// True for the name of a scale of 8-bit keys or values, in folders with any kind of weights.
bool is_kv_scale(std::string_view name);

// Weights by name, with the head size in rows, whose heads' rows alternate between the halves of the head.
using AlternatingRows = std::map<std::string, std::int64_t, std::less<>>;

class QuantizedTensors {
 public:
  // All quantised weights in `stored`, whose data must stay in place, and those in `alternating`.
  // corrupt_data: their parts do not fit together; resource_exhausted: no address space.
  static Result<std::unique_ptr<QuantizedTensors>> find(const Quantization& how, const StoredTensors& stored,
                                                        const AlternatingRows& alternating = {});
  ~QuantizedTensors();
  QuantizedTensors(const QuantizedTensors&) = delete;
  QuantizedTensors& operator=(const QuantizedTensors&) = delete;

  const std::map<std::string, TensorView, std::less<>>& tensors() const { return tensors_; }
  // Stored tensors that weights consist of, or that are not used: scales of activations, and scales of keys
  // and values.
  const std::set<std::string, std::less<>>& parts() const { return parts_; }

  // Returns how the scheme quantises the inputs of `tensor`, a weight or some of its rows.
  LinearArithmetic inputs_of(const TensorView& tensor) const;

  // Decodes the rows of `tensor`, a weight or some of its rows. A no-op for other tensors.
  Status bring_in(const TensorView& tensor, ThreadPool* pool) const;
  // Call once per bring_in(). The last call releases the weight's memory, and returns the stored bytes whose
  // file memory may be released, too.
  std::vector<TensorView> give_back(const TensorView& tensor) const;

 private:
  struct Place {
    QuantizedWeight weight;
    std::byte* begin = nullptr;
    std::vector<TensorView> stored;  // its parts, as bytes
    mutable std::int32_t users = 0;
    mutable std::vector<bool> ready = {};  // by row; empty: no row is ready
    std::int64_t row_bytes() const { return dtype_bytes(weight.dtype, weight.columns()); }
  };
  QuantizedTensors() = default;
  const Place* place_of(const TensorView& tensor) const;
  static Status decode_rows(const Place& place, std::int64_t first, std::int64_t end, ThreadPool* pool);

  std::map<std::string, TensorView, std::less<>> tensors_;
  std::set<std::string, std::less<>> parts_;
  std::vector<Place> places_;  // by address
  mutable std::mutex mutex_;   // guards users and ready
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace pagoda
