#include "models/adapter_set.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <set>
#include <utility>

#include "base/assign_or_return.h"
#include "base/strings.h"
#include "loader/printable.h"
#include "models/adapted_weights.h"
#include "tensor/shape_text.h"

namespace pagoda {

struct AdapterSet::Loaded final : RequestAdapter {
  AdapterFactors factors;
};

namespace {

constexpr std::string_view kMerge = ": merge the adapter at start (--lora)";

// The factors as a product x A^T B^T has them, of a tensor [outputs, inputs].
struct OrderedFactors {
  AdapterMatrix b, a;  // [outputs, rank], [rank, inputs]

  bool are_bfloat16() const { return a.stored.dtype == DType::bf16 && b.stored.dtype == DType::bf16; }
};

// A change that a part of a packed matrix takes.
struct TakenPart {
  const AdapterTargetPart* part;
  OrderedFactors factors;
  float scale;
};

// Refuses what is not a product of two factors.
Status check_is_product(std::string_view name, const TensorChange& change) {
  const auto refused = [&](auto... what) {
    return unimplemented(
        concat(what..., " '", printable(name), "', which an adapter that requests choose cannot", kMerge));
  };
  if (change.row_lengths) return refused("it gives rows new lengths (DoRA) in");
  if (change.whole) return refused("it replaces (modules_to_save)");
  if (change.sum) return refused("it adds to the bias");
  return ok_status();
}

// Whether the parts together have each row of their tensor.
bool cover_their_tensor(const std::vector<TakenPart>& parts) {
  std::vector<bool> has(static_cast<std::size_t>(parts.front().part->tensor_rows));
  for (const TakenPart& each : parts)
    for (std::int64_t row = 0; row < each.part->rows; ++row)
      has[static_cast<std::size_t>(each.part->first_row + row)] = true;
  return std::ranges::all_of(has, [](bool row) { return row; });
}

OrderedFactors ordered(bool transposed, AdapterMatrix left, AdapterMatrix right) {
  if (!transposed) return {std::move(left), std::move(right)};
  left.transposed = !left.transposed;
  right.transposed = !right.transposed;
  return {std::move(right), std::move(left)};
}

// The factors of one packed matrix. Parts of one tensor share what A makes.
LowRank cut_factors(const std::vector<TakenPart>& parts) {
  const bool bfloat16 =
      std::ranges::all_of(parts, [](const auto& each) { return each.factors.are_bfloat16(); });
  LowRank out(bfloat16 ? LowRank::Type::bfloat16 : LowRank::Type::float32, parts.front().part->columns);
  struct Ready {
    std::string_view tensor;
    std::int32_t first_rank;
    std::vector<float> b;
  };
  std::vector<Ready> ready;
  for (const auto& [part, factors, scale] : parts) {
    auto found = std::ranges::find(ready, part->tensor, &Ready::tensor);
    if (found == ready.end()) {
      ready.push_back({part->tensor, out.add_right(adapter_values(factors.a)), adapter_values(factors.b)});
      found = ready.end() - 1;
    }
    const std::int64_t rank = factors.b.columns();
    std::vector<float> rows;
    rows.reserve(static_cast<std::size_t>(part->rows * rank));
    for (std::int64_t row = 0; row < part->rows; ++row) {
      const auto first = found->b.begin() + (part->first_row + part->pairs.source(row)) * rank;
      rows.insert(rows.end(), first, first + rank);
    }
    out.add_left(part->first_output, found->first_rank, static_cast<std::int32_t>(rank), rows,
                 scale * part->factor);
  }
  return out;
}

}  // namespace

void AdapterSet::set_targets(AdapterTargets targets) {
  const std::lock_guard lock(mutex_);
  if (targets_ != nullptr) return;
  targets_ = std::make_shared<const AdapterTargets>(std::move(targets));
}

Status AdapterSet::check_room(std::string_view name, IfLoaded if_loaded) const {
  const bool there = std::ranges::any_of(loaded_, [&](const auto& each) { return each->name == name; });
  if (there && if_loaded == IfLoaded::refuse)
    return already_exists(concat("an adapter '", printable(name), "' is loaded"));
  if (!there && std::ssize(loaded_) >= limits_.max_adapters)
    return resource_exhausted(concat("as many adapters are loaded as may be, ", limits_.max_adapters));
  return ok_status();
}

// Cut as the model's matrices are. Needs no lock: targets stay.
Result<AdapterFactors> AdapterSet::factors_for(const AdapterTargets& targets, const Adapter& adapter) const {
  PAGODA_RETURN_IF_ERROR(
      check_adapts(adapter, targets.format, targets.architecture.empty() ? nullptr : &targets.architecture));
  std::vector<std::vector<TakenPart>> taken(targets.matrices.size());
  std::set<std::string_view> seen;
  for (const auto& [name, change] : adapter.changes()) {
    const std::string_view own = plain_tensor_name(name);
    if (targets.unread.contains(own)) continue;
    PAGODA_RETURN_IF_ERROR(check_is_product(name, change));
    if (!change.left || !change.right || !seen.insert(own).second)
      return corrupt_data(concat("it has '", printable(name), "' twice, or not whole"));
    std::vector<TakenPart> parts;
    for (std::size_t slot = 0; slot < targets.matrices.size(); ++slot) {
      for (const AdapterTargetPart& part : targets.matrices[slot]) {
        if (part.tensor != own) continue;
        parts.push_back({&part, ordered(part.transposed, *change.left, *change.right), change.scale});
        taken[slot].push_back(parts.back());
      }
    }
    if (parts.empty() && !targets.names.contains(own))
      return invalid_argument(concat("it changes '", printable(name), "', which the model does not have"));
    if (parts.empty() || !cover_their_tensor(parts))
      return unimplemented(
          concat("it changes '", printable(name), "', which an adapter that requests choose cannot", kMerge));
    const AdapterTargetPart& part = *parts.front().part;
    const OrderedFactors& factors = parts.front().factors;
    if (factors.b.rows() != part.tensor_rows || factors.a.columns() != part.columns)
      return invalid_argument(
          concat("it changes '", printable(name), "' as one of shape ",
                 shape_text(std::array{factors.b.rows(), factors.a.columns()}), ", and the model's has ",
                 shape_text(std::array{part.tensor_rows, part.columns}), ": it is of another model"));
    if (factors.b.columns() > limits_.max_rank)
      return invalid_argument(concat("its rank is ", factors.b.columns(), " in '", printable(name),
                                     "', and the most is ", limits_.max_rank));
  }
  AdapterFactors out;
  for (const std::vector<TakenPart>& parts : taken)
    out.matrices.push_back(parts.empty() ? LowRank() : cut_factors(parts));
  return out;
}

Result<AdapterSet::Handle> AdapterSet::add(std::string name, const Adapter& adapter, IfLoaded if_loaded,
                                           std::string identity) {
  static std::atomic<std::int32_t> last_id{0};
  std::shared_ptr<const AdapterTargets> targets;
  {
    const std::lock_guard lock(mutex_);
    PAGODA_RETURN_IF_ERROR(check_room(name, if_loaded));
    targets = targets_;
  }
  if (targets == nullptr) return unavailable("the model is not loaded yet");
  auto factors = factors_for(*targets, adapter);
  if (!factors) return factors.error().annotate(concat("adapter '", printable(adapter.path()), "'"));
  const auto made = std::make_shared<Loaded>();
  made->id = AdapterId{++last_id};
  made->name = std::move(name);
  made->path = adapter.path();
  made->identity = identity.empty() ? adapter.identity() : std::move(identity);
  made->factors = *std::move(factors);
  for (const auto& [tensor, change] : adapter.changes())
    if (change.left) made->rank = std::max(made->rank, static_cast<std::int32_t>(change.left->columns()));

  const std::lock_guard lock(mutex_);
  PAGODA_RETURN_IF_ERROR(check_room(made->name, if_loaded));  // others may have been added meanwhile
  std::erase_if(by_id_, [](const auto& each) { return each.second.expired(); });
  by_id_.emplace(made->id, made);
  const auto before =
      std::ranges::find_if(loaded_, [&](const auto& each) { return each->name == made->name; });
  if (before == loaded_.end())
    loaded_.push_back(made);
  else
    *before = made;
  return Handle(made);
}

bool AdapterSet::remove(std::string_view name) {
  const std::lock_guard lock(mutex_);
  return std::erase_if(loaded_, [&](const auto& each) { return each->name == name; }) > 0;
}

AdapterSet::Handle AdapterSet::find(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(loaded_, [&](const auto& each) { return each->name == name; });
  return found == loaded_.end() ? nullptr : *found;
}

std::vector<AdapterSet::Handle> AdapterSet::list() const {
  const std::lock_guard lock(mutex_);
  return {loaded_.begin(), loaded_.end()};
}

std::shared_ptr<const AdapterFactors> AdapterSet::find(AdapterId id) const {
  const std::lock_guard lock(mutex_);
  const auto found = by_id_.find(id);
  const std::shared_ptr<const Loaded> held = found == by_id_.end() ? nullptr : found->second.lock();
  return held == nullptr ? nullptr : std::shared_ptr<const AdapterFactors>(held, &held->factors);
}

}  // namespace pagoda
