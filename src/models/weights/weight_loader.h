#pragma once
// WeightLoader: turns a model's tensors into packed matrices: names, shapes, the rank's rows and columns, and
// the orders in which families store them. Parts of layers take their weights here. The first failure is
// kept, as in WeightReader: later calls return empty results, and callers check status() where it matters.
// Threads: one caller. Owner: the loader of a model.
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "kernels/linear.h"
#include "kernels/placed.h"
#include "loader/model_source.h"
#include "models/decoder_config.h"
#include "models/weight_names.h"
#include "models/weights/adapter_targets.h"
#include "models/weights/kv_scales.h"
#include "models/weights/tensor_shard.h"
#include "models/weights/weight_reader.h"
#include "models/weights/weight_store.h"

namespace pagoda {

struct NormWeights {
  std::vector<float> weight, bias;  // bias is empty for RMS norms
};

// The same, placed where ops read it.
struct PlacedNorm {
  PlacedVector weight, bias;
};

// Matrices to be packed into a PackedLinear, with the copies that some need. Copies are made when packing; a
// matrix mapped from a cache needs neither copies nor the source.
struct Matrices {
  std::vector<TensorView> views;  // without data until a copy is made
  std::vector<float> bias;
  std::string recipe;            // identifies the tensor parts and their changes; the name in a cache
  std::vector<TensorView> read;  // source tensors that packing reads
  bool own_inputs = false;       // the quantisation scheme does not cover their inputs
  std::vector<std::function<void(Matrices&)>> to_copy;  // in this order
  std::vector<std::vector<std::byte>> copies;
  // Rows that adapters may add to, with the index of each part's view.
  std::vector<std::pair<std::size_t, AdapterTargetPart>> adapted;
};

// Whether a matrix's products apply the adapters of their rows (LinearInput::adapters), so that requests may
// choose adapters for it.
enum class RowsAdapt { no, yes };

class WeightLoader {
 public:
  // `dtype`: as read by choose_linear_type. All arguments must outlive the loader.
  WeightLoader(const KernelContext& context, const ModelSource& source, const WeightNames& names,
               std::int32_t rank, std::string_view dtype, WeightStore& store)
      : context_(context),
        source_(source),
        names_(names),
        rank_(rank),
        dtype_(dtype),
        store_(store),
        reader_(source, names.prefix, names.other_prefixes) {}

  const WeightNames& names() const { return names_; }
  WeightReader& reader() { return reader_; }
  const Status& status() const { return reader_.status(); }
  std::int64_t packed_bytes() const { return packed_bytes_; }

  // The scales of the layer whose tensors begin with `prefix`; 1 if unusable (kv_scales.h gives the reason).
  KvScales kv_scales(std::string_view prefix) const;
  NormWeights norm(const std::string& name, std::int64_t size, const NormConfig& config);
  std::vector<float> norm_vector(const std::string& name, std::int64_t size, const NormConfig& config);

  // Places numbers where the context's ops read them; does nothing while only names and shapes are checked.
  PlacedVector place(std::vector<float> values);
  PlacedNorm place(NormWeights weights) {
    return {place(std::move(weights.weight)), place(std::move(weights.bias))};
  }

  // Returns rows of a matrix as stored, kept as long as the weights.
  TensorView keep_rows(const TensorView& matrix, const std::string& name, Range range);
  // Appends rows of a matrix to `matrices`.
  void add_rows(Matrices& matrices, const TensorView& matrix, const std::string& name, Range range);
  // Appends rows of [rows, columns] and of its bias, if the file has one, multiplied by `factor`.
  // `input_factor` is the part of `factor` that applies to the input, so not to the bias.
  void add(Matrices& matrices, const std::string& name, std::int64_t rows, std::int64_t columns,
           std::span<const Range> ranges, float factor = 1, float input_factor = 1);
  // Appends the dequantised rows first, first + step, ..., `count` in total, of `stored`: [rows, columns], or
  // transposed.
  void add_picked(Matrices& matrices, const TensorView& stored, const std::string& name, Range rows,
                  std::int64_t step, bool transposed);
  // Appends the columns of `stored` as rows; quantised ones in float32.
  void add_transposed(Matrices& matrices, const TensorView& stored, const std::string& name);
  // In the file, rows 2i and 2i + 1 of a head, counted from `begin`, rotate together; the kernels rotate rows
  // i and i + rotary / 2.
  void reorder_rows(Matrices& matrices, std::size_t view, std::int64_t num_heads, std::int64_t head_size,
                    std::int64_t rotary_size, std::int64_t first_bias, std::int64_t begin = 0);
  // bring_in() makes the views of `matrices` readable, including copies; give_back() releases the source's
  // memory.
  Status bring_in(Matrices& matrices) const;
  void give_back(const Matrices& matrices) const;
  // GGUF's separate factors of NVFP4 weights: one, or one per expert. 1 if absent.
  std::vector<float> nvfp4_scales(const std::string& name, DType stored, std::int64_t count);
  // Turns views from `first_view` on into float32 copies multiplied by `factor`.
  void scale_from(Matrices& matrices, std::size_t first_view, float factor);
  PackedLinear pack(Matrices matrices, const std::string& name, LinearForm form = LinearForm::stacked,
                    RowsAdapt adapt = RowsAdapt::no);
  // Declares the next matrix one of `count` alike, which are contiguous on a device.
  void continue_series(std::size_t which, std::int64_t count);
  PackedLinear pack_exact(Matrices matrices, const std::string& name,
                          RowsAdapt adapt = RowsAdapt::no);  // as exact_linear()
  PackedLinear linear(const std::string& name, std::int64_t rows, std::int64_t columns, float factor = 1,
                      RowsAdapt adapt = RowsAdapt::no);
  // The same in float32 whatever the dtype: for small matrices that make decisions.
  PackedLinear exact_linear(const std::string& name, std::int64_t rows, std::int64_t columns);
  // This rank's part of the last matrix of a sublayer: its rows, or columns `own` (ExchangeKind), multiplied
  // by `factor`.
  PackedLinear last_linear(const std::string& name, std::int64_t rows, std::int64_t columns, Range own,
                           const LayerShard& shard, float factor = 1);  // with RowsAdapt::yes

  // Returns the name that adapters use for a tensor: its plain name in the file.
  std::string name_for_adapters(const std::string& tensor) const;
  // Marks a tensor as unread: adapters may change it without effect.
  void ignore(const std::string& tensor);
  // Returns the targets recorded so far.
  AdapterTargets adapter_targets() const;

 private:
  // The scheme's for all tensors together: the largest of fixed scales. Own inputs if they differ otherwise.
  LinearArithmetic inputs_of(const Matrices& matrices) const;
  PackedLinear pack_as(Matrices matrices, const std::string& name, LinearForm form, std::string_view dtype,
                       RowsAdapt adapt);
  void note_adapted(const Matrices& matrices);
  void copy_stored(const TensorView& matrix, std::byte* to) const;
  TensorView stored(const std::string& weight, std::int64_t rows, std::int64_t columns);
  void add_columns(Matrices& matrices, const TensorView& matrix, const std::string& weight, Range range);

  const KernelContext& context_;
  const ModelSource& source_;
  const WeightNames& names_;
  std::int32_t rank_;
  std::string_view dtype_;
  WeightStore& store_;
  WeightReader reader_;
  std::int64_t packed_bytes_ = 0;
  std::vector<std::vector<AdapterTargetPart>> adapted_;
  std::vector<std::string> unread_;
};

// Returns contiguous rows of a matrix.
TensorView with_rows(const TensorView& matrix, Range range);
// Returns all[index], with one dimension less.
TensorView part_at(const TensorView& all, std::int64_t index);

}  // namespace pagoda
