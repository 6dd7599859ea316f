// Converts a folder's feed-forward tensors to GGUF's form, in which all experts of a layer are one tensor.
#include <utility>

#include "loader/printable.h"
#include "models/quantize/folder_tensors.h"
#include "models/weights/weight_loader.h"

namespace pagoda {
namespace {

class FeedForwardTensors {
 public:
  FeedForwardTensors(const LayerNames& names, FolderTensors& out) : names_(names), out_(out) {}

  void add_dense(const DenseFeedForwardConfig* config) {
    const WeightNames &from = out_.from, &to = out_.to;
    const float gate = config != nullptr ? config->gate_factor : 1,
                down = config != nullptr ? config->down_factor : 1;
    for (const DenseNames& own :
         {DenseNames{from.gate, from.up, from.down, from.fused_gate_up}, from.other_dense}) {
      if (to.gate_in_up)
        part(own.gate_up, to.up);
      else
        add_both(own.gate_up, to.gate, to.up);
      part(own.gate, to.gate, times(gate));
      part(own.up, to.up);
      part(own.down, to.down, times(down));
    }
  }

  void add_mixture(const MixtureConfig& mixture) {
    if (out_.to.experts.empty()) return;
    const ExpertNames& other = out_.to.experts.front();
    for (const ExpertNames& form : out_.from.experts) {
      const std::string down = names_.from + numbered(form.down, 0) + form.weight;
      if (form.down.empty() || !out_.has(down)) continue;
      if (form.transposed || form.interleaved)
        return out_.refuse("its experts are stored as '", printable(down), "'");
      for (const ExpertName name : {&ExpertNames::router, &ExpertNames::shared_gate, &ExpertNames::shared_up,
                                    &ExpertNames::shared_down, &ExpertNames::shared_router})
        part(form.*name, other.*name);
      add_both(form.shared_gate_up, other.shared_gate, other.shared_up);
      if (!form.correction.empty())
        out_.add_whole(names_.from + form.correction, names_.to + other.correction);
      for (const ExpertName name : {&ExpertNames::gate, &ExpertNames::up, &ExpertNames::down})
        if (!(form.*name).empty() && form.joined)
          add_joined(mixture, form.*name + form.weight, other.*name,
                     form.down_transposed && name == &ExpertNames::down);
        else if (!(form.*name).empty())
          add_stacked(mixture, form.*name + form.weight, other.*name);
      if (!form.gate_up.empty() && !other.gate_up.empty())
        add_stacked(mixture, form.gate_up + form.weight, other.gate_up);
      else if (!form.gate_up.empty())
        add_halves(form.gate_up + form.weight, other);
      return;
    }
  }

 private:
  void part(const std::string& own, const std::string& other, const RowChange& change = {}) {
    if (own.empty()) return;
    RowChange turned = change;
    turned.transposed = out_.from.transposed;
    out_.add_module(names_.from + own, other.empty() ? "" : names_.to + other, turned);
  }

  // Splits a matrix of gate above up.
  void add_both(const std::string& both, const std::string& gate, const std::string& up) {
    if (both.empty()) return;
    for (const char* end : {".weight", ".bias"}) {
      const TensorView* const all = out_.take(names_.from + both + end);
      if (all == nullptr) continue;
      const std::int64_t half = all->rows() / 2;
      out_.add_rows(*all, names_.to + gate + end, {.rows = {{0, half}}});
      out_.add_rows(*all, names_.to + up + end, {.rows = {{half}}});
    }
  }

  // Makes [experts, rows, columns] from a matrix per expert, or from one for all.
  void add_stacked(const MixtureConfig& mixture, const std::string& own, const std::string& other) {
    const std::string from = names_.from + own;
    if (!out_.has(numbered(from, 0))) return;
    if (other.empty()) return out_.refuse("the file has no place for '", printable(from), "'");
    const std::int64_t count = is_numbered(from) ? mixture.routing.num_experts : 1;
    GgufRows stack = {.name = names_.to + other + ".weight"};
    for (std::int64_t expert = 0; expert < count; ++expert) {
      const TensorView* const part = out_.take(numbered(from, expert));
      if (part == nullptr || (expert > 0 && part->shape != stack.parts.front().stored.shape))
        return out_.refuse("tensor '", printable(numbered(from, expert)),
                           "' is missing, or has another shape than the first expert's");
      stack.parts.push_back({.stored = *part});
    }
    stack.shape = stack.parts.front().stored.shape;
    if (count > 1 || stack.shape.size() == 2) stack.shape.insert(stack.shape.begin(), count);
    out_.add(std::move(stack));
  }

  // The same from [experts * rows, columns].
  void add_joined(const MixtureConfig& mixture, const std::string& own, const std::string& other,
                  bool transposed) {
    const TensorView* const all = out_.take(names_.from + own);
    const std::int64_t experts = mixture.routing.num_experts;
    if (all == nullptr) return;
    if (all->shape.size() != 2 || all->rows() % experts != 0)
      return out_.refuse("tensor '", printable(names_.from + own), "' is no matrix for each expert");
    const std::int64_t rows = all->rows() / experts, columns = all->columns();
    GgufRows stack = {.name = names_.to + other + ".weight", .shape = {experts, rows, columns}};
    if (transposed) std::swap(stack.shape[1], stack.shape[2]);
    for (std::int64_t expert = 0; expert < experts; ++expert)
      stack.parts.push_back({.stored = with_rows(*all, {expert * rows, rows}), .transposed = transposed});
    out_.add(std::move(stack));
  }

  // Splits each expert's matrix of gate above up.
  void add_halves(const std::string& own, const ExpertNames& other) {
    const std::string from = names_.from + own;
    const TensorView* const all = out_.take(from);
    if (all == nullptr || all->shape.size() != 3 || all->shape[1] % 2 != 0)
      return out_.refuse("tensor '", printable(from), "' is missing, or no matrix for each expert");
    const std::int64_t experts = all->shape[0], half = all->shape[1] / 2, columns = all->shape[2];
    const std::int64_t bytes = dtype_bytes(all->dtype, half * columns);
    for (const std::int64_t which : {0, 1}) {
      GgufRows stack = {.name = names_.to + (which == 0 ? other.gate : other.up) + ".weight",
                        .shape = {experts, half, columns}};
      for (std::int64_t expert = 0; expert < experts; ++expert)
        stack.parts.push_back(
            {.stored = {all->dtype, {half, columns}, all->data + (2 * expert + which) * bytes}});
      out_.add(std::move(stack));
    }
  }

  const LayerNames& names_;
  FolderTensors& out_;
};

}  // namespace

void add_feed_forward(const LayerConfig& layer, const LayerNames& names, FolderTensors& out) {
  FeedForwardTensors tensors(names, out);
  if (layer.mixture() != nullptr)
    tensors.add_mixture(*layer.mixture());
  else
    tensors.add_dense(layer.dense());
}

}  // namespace pagoda
