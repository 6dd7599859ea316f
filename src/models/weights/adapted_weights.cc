#include "models/weights/adapted_weights.h"

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "base/assign_or_return.h"
#include "base/check.h"
#include "base/strings.h"
#include "kernels/dequantize.h"
#include "loader/json_object.h"
#include "loader/json_overrides.h"
#include "loader/printable.h"
#include "tensor/half_floats.h"
#include "tensor/memory.h"
#include "tensor/shape_text.h"

namespace pagoda {
namespace {

constexpr std::string_view kHead = "lm_head.weight", kGgufHead = "output.weight";
constexpr std::string_view kGgufEmbedding = "token_embd.weight";

std::vector<float> values_of(const TensorView& tensor) {
  return adapter_values(AdapterMatrix{{tensor.dtype, {1, tensor.elements()}, tensor.data}});
}

void store_row(DType dtype, const std::vector<float>& row, std::byte* out) {
  if (dtype == DType::f32) {
    std::memcpy(out, row.data(), row.size() * sizeof(float));
    return;
  }
  for (const float value : row) {
    const std::uint16_t bits = dtype == DType::f16 ? float_to_half(value) : float_to_bfloat16(value);
    std::memcpy(out, &bits, sizeof bits);
    out += sizeof bits;
  }
}

// A tensor that the adapter changes, and the memory for its computed rows.
struct ChangedTensor {
  TensorView before, after;
  TensorChange change;
  bool of_adapter = false;  // `before` belongs to the adapter and is not brought in
  float stored_scale = 1;   // factor from values in `before` to the model's values
  Memory memory = {};       // empty: `after` is a tensor of the adapter
  std::int64_t users = 0;
  std::vector<bool> ready = {};  // by row; empty: no row is ready

  std::int64_t row_bytes() const { return dtype_bytes(after.dtype, after.columns()); }
};

// The factors from which a change's rows are computed.
struct Factors {
  std::vector<float> left, right, sum, lengths;
  std::int64_t rank = 0;
};

Factors factors_of(const TensorChange& change) {
  Factors out;
  if (change.left) {
    out.left = adapter_values(*change.left);
    out.right = adapter_values(*change.right);
    out.rank = change.left->columns();
  }
  if (change.sum) out.sum = values_of(*change.sum);
  if (change.row_lengths) out.lengths = values_of(*change.row_lengths);
  return out;
}

// Sums each element in the order of the rank, independent of which rows are made together.
void make_row(const ChangedTensor& tensor, const Factors& factors, std::int64_t row,
              std::vector<float>& values) {
  const auto columns = static_cast<std::size_t>(tensor.after.columns());
  const auto stored_row = dtype_bytes(tensor.before.dtype, tensor.before.columns());
  dequantize(tensor.before.dtype, tensor.before.data + row * stored_row, tensor.before.columns(),
             values.data());
  if (tensor.stored_scale != 1)
    for (float& value : values) value *= tensor.stored_scale;
  std::vector<float> delta(columns);
  for (std::int64_t k = 0; k < factors.rank; ++k) {
    const float factor = factors.left[static_cast<std::size_t>(row * factors.rank + k)];
    const float* const right = factors.right.data() + static_cast<std::size_t>(k) * columns;
    for (std::size_t i = 0; i < columns; ++i) delta[i] += factor * right[i];
  }
  if (!factors.sum.empty()) delta = factors.sum;
  for (std::size_t i = 0; i < columns; ++i) values[i] += tensor.change.scale * delta[i];
  if (factors.lengths.empty()) return;
  double squares = 0;
  for (const float value : values) squares += static_cast<double>(value) * value;
  const float by =
      squares == 0 ? 0
                   : static_cast<float>(factors.lengths[static_cast<std::size_t>(row)] / std::sqrt(squares));
  for (float& value : values) value *= by;
}

class AdaptedSource final : public ModelSource {
 public:
  AdaptedSource(std::unique_ptr<ModelSource> model, Adapter adapter)
      : model_(std::move(model)), adapter_(std::move(adapter)), config_(model_->config_json()) {}

  Status change_tensors();

  ModelFormat format() const override { return model_->format(); }
  std::string_view config_json() const override { return config_; }
  std::string name() const override { return model_->name(); }
  std::string weight_type() const override { return model_->weight_type(); }
  const TensorView* find(std::string_view name) const override {
    if (const auto changed = changed_.find(name); changed != changed_.end()) return &changed->second.after;
    return name == added_head_ ? model_->find(embedding_) : model_->find(name);
  }
  std::vector<std::string> tensor_names() const override {
    std::vector<std::string> names = model_->tensor_names();
    std::erase_if(names, [this](const std::string& name) { return taken_scales_.contains(name); });
    for (const auto& [name, changed] : changed_)
      if (model_->find(name) == nullptr) names.push_back(name);
    if (!added_head_.empty()) names.push_back(added_head_);
    std::ranges::sort(names);
    return names;
  }
  const TensorView* find_kv_scale(std::string_view name) const override {
    return model_->find_kv_scale(name);
  }
  const GgufFile* gguf() const override { return model_->gguf(); }
  std::optional<std::string> side_file(std::string_view name) const override {
    return model_->side_file(name);
  }
  const std::string& path() const override { return model_->path(); }
  std::string absent_file() const override { return model_->absent_file(); }
  std::string identity() const override {
    const std::string own = model_->identity();
    return own.empty() ? own : concat(own, "\n", adapter_.identity());
  }
  bool unchanged() const override { return model_->unchanged() && adapter_.unchanged(); }
  LinearArithmetic inputs_of(const TensorView& tensor) const override {
    return changed_at(tensor) != nullptr ? LinearArithmetic{} : model_->inputs_of(tensor);
  }
  Status bring_in(const TensorView& tensor, ThreadPool* pool) const override;
  void give_back(const TensorView& tensor) const override;
  void has_read(const TensorView& rows) const override {
    if (changed_at(rows) == nullptr) model_->has_read(rows);
  }

 private:
  std::string name_in_model(std::string_view name) const;
  Status change_tensor(std::string name, const std::string& in_adapter, const TensorChange& change);
  float take_scale(std::string_view name, const TensorView& tensor);
  Status untie_head();
  Status set_vocabulary(std::int64_t rows);
  ChangedTensor* changed_at(const TensorView& tensor) const;
  Status make_rows(ChangedTensor& tensor, std::int64_t first, std::int64_t end, ThreadPool* pool) const;

  std::unique_ptr<ModelSource> model_;
  Adapter adapter_;
  std::string config_;
  std::map<std::string, std::string> by_plain_name_;  // empty if two tensors share a name
  std::string embedding_, added_head_;  // tensor names; added_head_: a separate head for a tied embedding
  std::set<std::string, std::less<>> taken_scales_;  // tensors whose values are included in changed ones
  mutable std::map<std::string, ChangedTensor, std::less<>> changed_;
  std::map<const std::byte*, ChangedTensor*> by_address_;
  mutable std::mutex mutex_;  // guards users and ready
};

// Returns the model's name for a tensor of the adapter; empty if there is none.
std::string AdaptedSource::name_in_model(std::string_view name) const {
  if (model_->find(name) != nullptr) return std::string(name);
  const auto found = by_plain_name_.find(std::string(plain_tensor_name(name)));
  return found == by_plain_name_.end() ? std::string() : found->second;
}

// In GGUF files only NVFP4 tensors have a separate scale tensor.
float AdaptedSource::take_scale(std::string_view name, const TensorView& tensor) {
  constexpr std::string_view kWeight = ".weight";
  if (format() != ModelFormat::gguf || tensor.dtype != DType::nvfp4 || !name.ends_with(kWeight)) return 1;
  const std::string_view of = name.substr(0, name.size() - kWeight.size());
  for (const std::string_view kind : {".scale", ".input_scale"}) taken_scales_.insert(concat(of, kind));
  const TensorView* const scale = model_->find(concat(of, ".scale"));
  return scale == nullptr || scale->elements() != 1 ? 1 : values_of(*scale).front();
}

Status AdaptedSource::change_tensor(std::string name, const std::string& in_adapter,
                                    const TensorChange& change) {
  const TensorView* const own = model_->find(name == kHead || name == kGgufHead ? name_in_model(name) : name);
  ChangedTensor out{.before = {}, .after = {}, .change = change};
  if (own != nullptr) out.before = *own;
  if (own == nullptr) out.before = *model_->find(embedding_);  // a tied head
  if (own != nullptr) out.stored_scale = take_scale(name, *own);
  if (change.whole) {
    out.stored_scale = 1;
    out.before = *change.whole;
    out.of_adapter = true;
  }
  const auto bad = [&](const std::vector<std::int64_t>& shape) {
    return invalid_argument(concat("it changes '", printable(in_adapter), "' as one of shape ",
                                   shape_text(shape), ", and the model's has ", shape_text(out.before.shape),
                                   ": it is of another model"));
  };
  const std::vector<std::int64_t>& shape = out.before.shape;
  if (change.left &&
      (shape.size() != 2 || shape[0] != change.left->rows() || shape[1] != change.right->columns()))
    return bad({change.left->rows(), change.right->columns()});
  if (change.sum && change.sum->elements() != out.before.elements()) return bad(change.sum->shape);
  if (change.row_lengths && change.row_lengths->elements() != shape[0]) return bad(change.row_lengths->shape);
  const DType dtype = out.before.dtype;
  const bool is_float = dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
  out.after = {is_float ? dtype : DType::bf16, change.sum ? std::vector{1, out.before.elements()} : shape,
               out.before.data};
  if (change.sum) out.before.shape = out.after.shape;
  const bool is_made = change.left || change.sum;
  if (is_made) {
    PAGODA_ASSIGN_OR_RETURN(out.memory, Memory::reserve(static_cast<std::size_t>(out.after.bytes())));
    out.after.data = out.memory.data();
  }
  const auto at = changed_.insert_or_assign(std::move(name), std::move(out)).first;
  if (is_made) by_address_.emplace(at->second.after.data, &at->second);
  return ok_status();
}

// If the adapter changes a tied embedding, the head keeps its original values, as in PEFT.
Status AdaptedSource::untie_head() {
  const bool has_head = !name_in_model(kHead).empty() || changed_.contains(kHead);
  if (embedding_.empty() || !changed_.contains(embedding_) || has_head || adapter_.keeps_tied_head())
    return ok_status();
  added_head_ = kHead;
  return ok_status();
}

// An embedding trained with more tokens determines the vocabulary size.
Status AdaptedSource::set_vocabulary(std::int64_t rows) {
  PAGODA_ASSIGN_OR_RETURN(boost::json::object config, parse_json_object(config_, "config.json"));
  boost::json::object* const part = language_part(config);
  (part != nullptr && part->contains("vocab_size") ? *part : config)["vocab_size"] = rows;
  config_ = boost::json::serialize(config);
  return ok_status();
}

Status AdaptedSource::change_tensors() {
  const bool gguf = format() == ModelFormat::gguf;
  PAGODA_RETURN_IF_ERROR(
      check_adapts(adapter_, format(), gguf ? model_->gguf()->string("general.architecture") : nullptr));
  for (const std::string& name : model_->tensor_names()) {
    const auto [at, is_new] = by_plain_name_.emplace(plain_tensor_name(name), name);
    if (!is_new) at->second.clear();
  }
  for (const std::string_view name :
       {"embed_tokens.weight", "wte.weight", "embed_in.weight", "word_embeddings.weight"})
    if (embedding_.empty()) embedding_ = name_in_model(name);
  if (gguf) embedding_ = kGgufEmbedding;
  for (const auto& [name, change] : adapter_.changes()) {
    std::string own = name_in_model(name);
    const bool is_head = plain_tensor_name(name) == kHead || name == kGgufHead;
    if (own.empty() && is_head && !embedding_.empty() && model_->find(embedding_) != nullptr)
      own = gguf ? kGgufHead : kHead;
    if (own.empty())
      return invalid_argument(concat("it changes '", printable(name), "', which the model does not have"));
    if (gguf && own == kGgufEmbedding && model_->find(kGgufHead) == nullptr)
      return unimplemented("it changes the embedding, which is also this model's head");
    PAGODA_RETURN_IF_ERROR(change_tensor(own, name, change));
  }
  PAGODA_RETURN_IF_ERROR(untie_head());
  const auto embedding = changed_.find(embedding_);
  if (embedding == changed_.end() || gguf || model_->find(embedding_) == nullptr) return ok_status();
  const std::int64_t rows = embedding->second.after.rows();
  return rows == model_->find(embedding_)->rows() ? ok_status() : set_vocabulary(rows);
}

ChangedTensor* AdaptedSource::changed_at(const TensorView& tensor) const {
  const auto behind = by_address_.upper_bound(tensor.data);
  if (behind == by_address_.begin()) return nullptr;
  ChangedTensor* const found = std::prev(behind)->second;
  return tensor.data < found->after.data + found->after.bytes() ? found : nullptr;
}

Status AdaptedSource::make_rows(ChangedTensor& tensor, std::int64_t first, std::int64_t end,
                                ThreadPool* pool) const {
  std::vector<std::int64_t> rows;
  if (tensor.ready.empty()) tensor.ready.resize(static_cast<std::size_t>(tensor.after.rows()));
  for (std::int64_t row = first; row < end; ++row)
    if (!tensor.ready[static_cast<std::size_t>(row)]) rows.push_back(row);
  if (rows.empty()) return ok_status();
  const std::int64_t stored_row = dtype_bytes(tensor.before.dtype, tensor.before.columns());
  const TensorView stored = {tensor.before.dtype,
                             {rows.back() - rows.front() + 1, tensor.before.columns()},
                             tensor.before.data + rows.front() * stored_row};
  if (!tensor.of_adapter) PAGODA_RETURN_IF_ERROR(model_->bring_in(stored, pool));
  const Factors factors = factors_of(tensor.change);
  constexpr std::int64_t kRows = 16;
  const auto make = [&](std::int64_t tile, int) {
    std::vector<float> values(static_cast<std::size_t>(tensor.after.columns()));
    const std::int64_t stop = std::min<std::int64_t>((tile + 1) * kRows, std::ssize(rows));
    for (std::int64_t i = tile * kRows; i < stop; ++i) {
      const std::int64_t row = rows[static_cast<std::size_t>(i)];
      make_row(tensor, factors, row, values);
      store_row(tensor.after.dtype, values, tensor.memory.data() + row * tensor.row_bytes());
    }
  };
  const std::int64_t tiles = (std::ssize(rows) + kRows - 1) / kRows;
  if (pool != nullptr)
    pool->parallel_for(tiles, make);
  else
    for (std::int64_t tile = 0; tile < tiles; ++tile) make(tile, 0);
  if (!tensor.of_adapter) model_->give_back(stored);
  for (const std::int64_t row : rows) tensor.ready[static_cast<std::size_t>(row)] = true;
  return ok_status();
}

Status AdaptedSource::bring_in(const TensorView& tensor, ThreadPool* pool) const {
  ChangedTensor* const changed = changed_at(tensor);
  if (changed == nullptr) return model_->bring_in(tensor, pool);
  if (tensor.bytes() == 0) return ok_status();
  const std::int64_t from = tensor.data - changed->after.data, row_bytes = changed->row_bytes();
  CHECK(row_bytes > 0);  // no tensor in `after` is empty
  const std::int64_t end = std::min((from + tensor.bytes() - 1) / row_bytes + 1, changed->after.rows());
  const std::lock_guard lock(mutex_);
  PAGODA_RETURN_IF_ERROR(make_rows(*changed, from / row_bytes, end, pool));
  ++changed->users;
  return ok_status();
}

void AdaptedSource::give_back(const TensorView& tensor) const {
  ChangedTensor* const changed = changed_at(tensor);
  if (changed == nullptr) return model_->give_back(tensor);
  const std::lock_guard lock(mutex_);
  if (changed->users == 0 || --changed->users > 0) return;
  changed->ready.clear();
  changed->memory.discard();
}

}  // namespace

Status check_adapts(const Adapter& adapter, ModelFormat format, const std::string* architecture) {
  if (adapter.format() != format)
    return unimplemented(
        concat("it is ", format == ModelFormat::gguf
                             ? "PEFT's, and the model is a GGUF file: convert the adapter "
                               "(llama.cpp's convert_lora_to_gguf.py), or serve the model's folder"
                             : "a GGUF file, and the model is a folder: serve the model as a GGUF "
                               "file, or give the adapter's PEFT folder"));
  if (architecture != nullptr && *architecture != adapter.architecture())
    return invalid_argument(concat("it is of a model of architecture '", printable(adapter.architecture()),
                                   "', and this one is '", printable(*architecture), "'"));
  return ok_status();
}

std::vector<float> adapter_values(const AdapterMatrix& matrix) {
  const TensorView& stored = matrix.stored;
  std::vector<float> values(static_cast<std::size_t>(stored.elements()));
  dequantize(stored.dtype, stored.data, stored.elements(), values.data());
  if (!matrix.transposed) return values;
  std::vector<float> turned(values.size());
  const auto rows = static_cast<std::size_t>(stored.rows()),
             columns = static_cast<std::size_t>(stored.columns());
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t column = 0; column < columns; ++column)
      turned[column * rows + row] = values[row * columns + column];
  return turned;
}

Result<std::unique_ptr<ModelSource>> with_adapter(std::unique_ptr<ModelSource> model, Adapter adapter) {
  const std::string path = adapter.path();
  auto out = std::make_unique<AdaptedSource>(std::move(model), std::move(adapter));
  if (const Status status = out->change_tensors(); !status.ok())
    return status.annotate(concat("adapter '", printable(path), "'"));
  return std::unique_ptr<ModelSource>(std::move(out));
}

}  // namespace pagoda
