#pragma once
// WeightLoader: the tensors of one model on their way into packed matrices: names, shapes, the rank's rows
// and columns, the orders in which families store them. Parts of layers take their weights here. The first
// failure is kept, as in WeightReader: later calls give empty results, and status() is asked where it
// matters. Threads: one caller. Owner: whoever loads a model.
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

// The same where ops read it.
struct PlacedNorm {
  PlacedVector weight, bias;
};

// Matrices on their way into a PackedLinear, with the copies that some need. Copies are made when it is
// packed: what is mapped from a cache needs none, and nothing of the source.
struct Matrices {
  std::vector<TensorView> views;  // without data where a copy is still to be made
  std::vector<float> bias;
  std::string recipe;  // which parts of which tensors, and what was done to them: the name in a cache
  std::vector<TensorView> read;                         // tensors of the source that will have been read
  bool own_inputs = false;                              // the scheme does not speak of their inputs
  std::vector<std::function<void(Matrices&)>> to_copy;  // in this order
  std::vector<std::vector<std::byte>> copies;
  // Rows that adapters may add to, and the view that each part is.
  std::vector<std::pair<std::size_t, AdapterTargetPart>> adapted;
};

// Whether a matrix's products are given the adapters of their rows (LinearInput::adapters), so that requests
// may choose what adds to them.
enum class RowsAdapt { no, yes };

class WeightLoader {
 public:
  // `dtype` as choose_linear_type reads it. All that is passed in must outlive the loader.
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

  // The scales of the layer whose tensors begin with `prefix`; 1 where they cannot be used (kv_scales.h says
  // why).
  KvScales kv_scales(std::string_view prefix) const;
  NormWeights norm(const std::string& name, std::int64_t size, const NormConfig& config);
  std::vector<float> norm_vector(const std::string& name, std::int64_t size, const NormConfig& config);

  // These numbers where the context's ops read them; nothing while names and shapes alone are checked.
  PlacedVector place(std::vector<float> values);
  PlacedNorm place(NormWeights weights) {
    return {place(std::move(weights.weight)), place(std::move(weights.bias))};
  }

  // These rows of a matrix as they are stored, kept for as long as the weights.
  TensorView keep_rows(const TensorView& matrix, const std::string& name, Range range);
  // Adds these rows of a matrix, below what `matrices` holds.
  void add_rows(Matrices& matrices, const TensorView& matrix, const std::string& name, Range range);
  // Adds these rows of [rows, columns] and of its bias, if the file has one, below what `matrices` holds; all
  // of it times `factor`, of which `input_factor` is of what is multiplied: the bias is without it.
  void add(Matrices& matrices, const std::string& name, std::int64_t rows, std::int64_t columns,
           std::span<const Range> ranges, float factor = 1, float input_factor = 1);
  // Adds rows first, first + step, ..., `count` of them, of what `stored` means: [rows, columns], or that
  // transposed.
  void add_picked(Matrices& matrices, const TensorView& stored, const std::string& name, Range rows,
                  std::int64_t step, bool transposed);
  // Adds the columns of `stored` as rows; of a quantised one as what they mean, in float32.
  void add_transposed(Matrices& matrices, const TensorView& stored, const std::string& name);
  // Rows 2i and 2i + 1 of a head, counted from `begin`, rotate together in the file; the kernels rotate rows
  // i and i + rotary / 2.
  void reorder_rows(Matrices& matrices, std::size_t view, std::int64_t num_heads, std::int64_t head_size,
                    std::int64_t rotary_size, std::int64_t first_bias, std::int64_t begin = 0);
  // Makes what the views of `matrices` point to readable, copies included; and takes the source's memory
  // away again.
  Status bring_in(Matrices& matrices) const;
  void give_back(const Matrices& matrices) const;
  // The factors that GGUF files have beside NVFP4 weights: one, or one for each expert. 1 where there is
  // none.
  std::vector<float> nvfp4_scales(const std::string& name, DType stored, std::int64_t count);
  // Views from this one on become copies in float32, times `factor`.
  void scale_from(Matrices& matrices, std::size_t first_view, float factor);
  PackedLinear pack(Matrices matrices, const std::string& name, LinearForm form = LinearForm::stacked,
                    RowsAdapt adapt = RowsAdapt::no);
  // The next matrix is one of `count` that are alike, and on a device lie together.
  void continue_series(std::size_t which, std::int64_t count);
  PackedLinear pack_exact(Matrices matrices, const std::string& name,
                          RowsAdapt adapt = RowsAdapt::no);  // as exact_linear()
  PackedLinear linear(const std::string& name, std::int64_t rows, std::int64_t columns, float factor = 1,
                      RowsAdapt adapt = RowsAdapt::no);
  // The same in float32, whatever the dtype: what decides, and is small.
  PackedLinear exact_linear(const std::string& name, std::int64_t rows, std::int64_t columns);
  // This rank's part of a matrix that ends a sublayer: its rows, or columns `own` (ExchangeKind);
  // times `factor`.
  PackedLinear last_linear(const std::string& name, std::int64_t rows, std::int64_t columns, Range own,
                           const LayerShard& shard, float factor = 1);  // its rows adapt

  // The name by which adapters know a tensor: its plain name in the file.
  std::string name_for_adapters(const std::string& tensor) const;
  // A tensor that the model has and does not read: adapters may change it, to no effect.
  void ignore(const std::string& tensor);
  // All of them so far.
  AdapterTargets adapter_targets() const;

 private:
  // The scheme's, of all tensors together: the largest of fixed scales. Own where they differ otherwise.
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

// The rows of a matrix, which lie together.
TensorView with_rows(const TensorView& matrix, Range range);
// all[index], of one dimension less.
TensorView part_at(const TensorView& all, std::int64_t index);

}  // namespace pagoda
