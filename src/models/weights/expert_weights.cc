#include "models/weights/expert_weights.h"

#include <array>

#include "base/strings.h"
#include "kernels/dequantize.h"

namespace pagoda {
namespace {

// A tensor of all experts, and its bias if the file has one.
class Stack {
 public:
  Stack(WeightLoader& loader, const ExpertNames& names, std::string name, std::int64_t experts,
        std::int64_t rows, std::int64_t columns, bool transposed)
      : loader_(loader), name_(std::move(name)), rows_(rows), transposed_(transposed) {
    WeightReader& reader = loader.reader();
    // transformers saves some tensors as [out, in] that hub files have as [in, out].
    if (rows != columns && reader.has_tensor(name_ + names.weight, {experts, rows, columns}))
      transposed_ = false;
    if (transposed_) std::swap(rows, columns);
    weight_ = names.joined ? reader.tensor(name_ + names.weight, {experts * rows, columns})
                           : reader.tensor(name_ + names.weight, {experts, rows, columns});
    weight_.shape = {experts, rows, columns};
    if (names.expert_scales.empty() || !(name_ + ".scale").ends_with(names.expert_scales))
      factors_ = loader.nvfp4_scales(name_, weight_.dtype, experts);
    if (reader.has(name_ + names.bias)) bias_ = reader.tensor(name_ + names.bias, {experts, rows_});
  }

  // Adds rows first, first + step, ... of expert `expert`.
  void add(Matrices& matrices, std::int64_t expert, Range rows, std::int64_t step) const {
    if (!loader_.status().ok()) return;
    const std::string name = concat(name_, "[", expert, "]");
    const std::size_t first = matrices.views.size();
    loader_.add_picked(matrices, part_at(weight_, expert), name, rows, step, transposed_);
    if (!factors_.empty()) loader_.scale_from(matrices, first, factors_[static_cast<std::size_t>(expert)]);
    if (bias_.data == nullptr) return;
    std::vector<float> all(static_cast<std::size_t>(rows_));
    dequantize_row(bias_, expert, all.data());
    for (std::int64_t row = 0; row < rows.count; ++row)
      matrices.bias.push_back(all[static_cast<std::size_t>(rows.first + row * step)]);
  }

 private:
  WeightLoader& loader_;
  std::string name_;
  std::int64_t rows_;
  bool transposed_;
  TensorView weight_, bias_;
  std::vector<float> factors_;  // per expert; may be empty
};

void read_separate(const MixtureConfig& config, const ExpertNames& names, const std::string& prefix,
                   std::int64_t hidden, const OwnExperts& own, WeightLoader& loader, const TakeExpert& take) {
  const std::int64_t inner = config.expert.intermediate_size;
  for (std::int64_t expert = 0; expert < config.routing.num_experts && loader.status().ok(); ++expert) {
    const auto name = [&](const std::string& form) { return prefix + numbered(form, expert); };
    const bool is_own = expert >= own.experts.first && expert < own.experts.end();
    const std::string &gate = config.expert.gated ? names.gate : names.up, &up = names.up;
    if (!is_own) {  // belongs to another rank
      for (const std::string& form : {gate, up, names.down}) loader.reader().ignore(name(form) + ".weight");
      continue;
    }
    const std::array rows = {own.features};
    Matrices in;
    if (config.expert.gated) loader.add(in, name(gate), inner, hidden, rows);
    loader.add(in, name(up), inner, hidden, rows);
    take(ExpertMatrix::in, std::move(in), name(up));
    Matrices out;
    loader.add(out, name(names.down), hidden, inner, std::array{own.hidden});
    take(ExpertMatrix::out, std::move(out), name(names.down));
  }
}

void read_stacked(const MixtureConfig& config, const ExpertNames& names, const std::string& prefix,
                  std::int64_t hidden, const OwnExperts& own, WeightLoader& loader, const TakeExpert& take) {
  const std::int64_t inner = config.expert.intermediate_size, experts = config.routing.num_experts;
  const auto stack = [&](const std::string& name, std::int64_t rows, std::int64_t columns) {
    const bool transposed = names.transposed || (names.down_transposed && name == names.down);
    return Stack(loader, names, prefix + name, experts, rows, columns, transposed);
  };
  std::vector<Stack> in;
  if (!names.gate_up.empty()) {
    in.push_back(stack(names.gate_up, 2 * inner, hidden));
  } else {
    if (config.expert.gated) in.push_back(stack(names.gate, inner, hidden));
    in.push_back(stack(names.up, inner, hidden));
  }
  const Stack down = stack(names.down, hidden, inner);
  for (std::int64_t expert = own.experts.first; expert < own.experts.end() && loader.status().ok();
       ++expert) {
    Matrices first, second;
    const Range& features = own.features;
    if (names.gate_up.empty()) {
      for (const Stack& each : in) each.add(first, expert, features, 1);
    } else if (names.interleaved) {
      in[0].add(first, expert, {2 * features.first, features.count}, 2);
      in[0].add(first, expert, {2 * features.first + 1, features.count}, 2);
    } else {
      in[0].add(first, expert, features, 1);
      in[0].add(first, expert, {inner + features.first, features.count}, 1);
    }
    down.add(second, expert, own.hidden, 1);
    const std::string place = concat(prefix, "expert ", expert);
    take(ExpertMatrix::in, std::move(first), place);
    take(ExpertMatrix::out, std::move(second), place);
  }
}

}  // namespace

const ExpertNames& choose_expert_names(const std::string& prefix, WeightLoader& loader) {
  const std::vector<ExpertNames>& forms = loader.names().experts;
  CHECK(!forms.empty());
  for (const ExpertNames& form : forms) {
    const auto& last = form.gate_up.empty() ? form.up : form.gate_up;
    const std::string name = prefix + (form.separate() ? numbered(last, 0) + ".weight" : last + form.weight);
    if (loader.reader().has(name) && loader.reader().has(prefix + form.router + ".weight")) return form;
  }
  return forms.front();
}

void read_experts(const MixtureConfig& config, const ExpertNames& names, const std::string& prefix,
                  std::int64_t hidden_size, const OwnExperts& own, WeightLoader& loader,
                  const TakeExpert& take) {
  if (names.separate())
    read_separate(config, names, prefix, hidden_size, own, loader, take);
  else
    read_stacked(config, names, prefix, hidden_size, own, loader, take);
}

ExpertWeights load_experts(const MixtureConfig& config, const ExpertNames& names, const std::string& prefix,
                           std::int64_t hidden_size, const OwnExperts& own, WeightLoader& loader) {
  ExpertWeights weights;
  const LinearForm form = config.expert.gated ? LinearForm::gated : LinearForm::stacked;
  read_experts(config, names, prefix, hidden_size, own, loader,
               [&](ExpertMatrix which, Matrices matrices, const std::string& name) {
                 loader.continue_series(which == ExpertMatrix::in ? 0 : 1, own.experts.count);
                 if (which == ExpertMatrix::in)
                   weights.in.push_back(loader.pack(std::move(matrices), name, form));
                 else
                   weights.out.push_back(loader.pack(std::move(matrices), name));
               });
  return weights;
}

}  // namespace pagoda
