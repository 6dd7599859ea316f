#include "models/weights/adapter_set.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <numeric>
#include <set>
#include <utility>

#include "base/assign_or_return.h"
#include "base/check.h"
#include "base/strings.h"
#include "loader/printable.h"
#include "models/weights/adapted_weights.h"
#include "tensor/shape_text.h"

namespace pagoda {

struct AdapterSet::Loaded final : RequestAdapter {
  MemoryReservation memory;  // for the bytes of `factors`
  AdapterFactors factors;
  std::int64_t bytes = 0;
};

namespace {

constexpr std::int64_t kTableBytes = 256;  // upper bound on the table bytes per matrix of a copy
constexpr std::string_view kMerge = ": merge the adapter at start (--lora)";

// The factors for a product x A^T B^T, for a tensor [outputs, inputs].
struct OrderedFactors {
  AdapterMatrix b, a;  // [outputs, rank], [rank, inputs]

  bool are_bfloat16() const { return a.stored.dtype == DType::bf16 && b.stored.dtype == DType::bf16; }
};

// A change for a part of a packed matrix.
struct TakenPart {
  const AdapterTargetPart* part;
  OrderedFactors factors;
  float scale;
};

// Refuses changes that are not a product of two factors.
Status check_is_product(std::string_view name, const TensorChange& change) {
  const auto refused = [&](auto... what) {
    return unimplemented(
        concat(what..., " '", printable(name), "', which an adapter that requests choose cannot", kMerge));
  };
  if (change.row_lengths) return refused("it gives rows new lengths (DoRA) in");
  // The model has its own copy; PEFT only saved it again (vLLM ignores it, too).
  const bool is_copy = change.whole_is_models && change.left;
  if (change.whole && !is_copy) return refused("it replaces (modules_to_save)");
  if (change.sum) return refused("it adds to the bias");
  return ok_status();
}

// True if the parts together contain every row of their tensor.
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

// Returns a LowRank without factors.
LowRank empty_factors(const std::vector<TakenPart>& parts) {
  const bool bfloat16 =
      std::ranges::all_of(parts, [](const auto& each) { return each.factors.are_bfloat16(); });
  return {bfloat16 ? LowRank::Type::bfloat16 : LowRank::Type::float32, parts.front().part->columns};
}

// Bytes that cut_factors() keeps, and bytes that it needs temporarily.
struct FactorSizes {
  std::int64_t right = 0, left = 0, meanwhile = 0;
};
FactorSizes sizes_of(const std::vector<TakenPart>& parts) {
  const LowRank like = empty_factors(parts);
  FactorSizes out;
  std::set<std::string_view> seen;
  std::int64_t largest = 0;
  for (const auto& [part, factors, scale] : parts) {
    const std::int64_t rank = factors.b.columns();
    out.left += like.left_bytes(part->rows, rank);
    largest = std::max(largest, part->rows * rank);
    if (!seen.insert(part->tensor).second) continue;
    out.right += like.right_bytes(rank);
    // Values in float32, and again where they are transposed.
    out.meanwhile += 8 * (factors.a.stored.elements() + factors.b.stored.elements());
  }
  out.meanwhile += 4 * largest;
  return out;
}

// Bytes of an adapter with all factors at this rank, in float32.
std::int64_t most_bytes_of_one(const AdapterTargets& targets, std::int32_t rank) {
  std::int64_t bytes = 0;
  for (const std::vector<AdapterTargetPart>& matrix : targets.matrices) {
    std::set<std::string_view> seen;
    for (const AdapterTargetPart& part : matrix) {
      const LowRank like(LowRank::Type::float32, part.columns);
      bytes += like.left_bytes(part.rows, rank);
      if (seen.insert(part.tensor).second) bytes += like.right_bytes(rank);
    }
  }
  return bytes;
}

// Cuts the factors of one packed matrix. Parts of one tensor share the result of A.
LowRank cut_factors(const std::vector<TakenPart>& parts) {
  LowRank out = empty_factors(parts);
  const FactorSizes sizes = sizes_of(parts);
  out.reserve(sizes.right, sizes.left);
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

// The adapter's parts for each packed matrix.
using TakenParts = std::vector<std::vector<TakenPart>>;

AdapterFactors cut_all(const TakenParts& taken) {
  AdapterFactors out;
  for (const std::vector<TakenPart>& parts : taken)
    out.matrices.push_back(parts.empty() ? LowRank() : cut_factors(parts));
  return out;
}

Result<TakenParts> parts_for(const AdapterTargets& targets, const Adapter& adapter, std::int32_t max_rank) {
  PAGODA_RETURN_IF_ERROR(
      check_adapts(adapter, targets.format, targets.architecture.empty() ? nullptr : &targets.architecture));
  TakenParts taken(targets.matrices.size());
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
    if (factors.b.columns() > max_rank)
      return invalid_argument(concat("its rank is ", factors.b.columns(), " in '", printable(name),
                                     "', and the most is ", max_rank));
  }
  return taken;
}

}  // namespace

void AdapterSet::set_targets(AdapterTargets targets) {
  const std::lock_guard lock(mutex_);
  if (targets_ != nullptr) return;
  targets_ = std::make_shared<const AdapterTargets>(std::move(targets));
}

void AdapterSet::set_memory(MemoryBudget& memory, MemoryBudget::AccountId account) {
  const std::lock_guard lock(mutex_);
  CHECK(memory_ == nullptr);
  memory_ = &memory;
  account_ = account;
  for (const auto& each : loaded_) {
    auto held = memory.try_reserve(account, each->bytes);
    CHECK(held.has_value());  // set_memory()'s account has room for them
    each->memory = *std::move(held);
  }
}

std::int64_t AdapterSet::loaded_bytes() const {
  const std::lock_guard lock(mutex_);
  std::int64_t bytes = 0;
  for (const auto& each : loaded_) bytes += each->bytes;
  return bytes;
}

std::int64_t AdapterSet::most_bytes(std::int32_t count, bool others_may_come) const {
  const std::lock_guard lock(mutex_);
  if (targets_ == nullptr) return 0;
  const std::int64_t tables = kTableBytes * std::ssize(targets_->matrices);
  if (others_may_come) return count * (tables + most_bytes_of_one(*targets_, limits_.max_rank));
  std::vector<std::int64_t> bytes;
  for (const auto& each : loaded_) bytes.push_back(each->bytes);
  std::ranges::sort(bytes, std::greater());
  bytes.resize(std::min(bytes.size(), static_cast<std::size_t>(count)));
  return std::reduce(bytes.begin(), bytes.end()) + std::ssize(bytes) * tables;
}

Result<MemoryReservation> AdapterSet::reserve(std::int64_t bytes) const {
  if (memory_ == nullptr) return MemoryReservation();
  if (auto held = memory_->try_reserve(account_, bytes)) return *std::move(held);
  const MemoryBudget::Account account = memory_->account(account_);
  return resource_exhausted(concat("it needs ", bytes, " bytes of memory while it is loaded; adapters have ",
                                   account.used, " of at most ", account.limit,
                                   ", and other uses may have taken the rest"))
      .with_reason("adapter_memory_full");
}

Status AdapterSet::check_room(std::string_view name, IfLoaded if_loaded) const {
  const bool there = std::ranges::any_of(loaded_, [&](const auto& each) { return each->name == name; });
  if (there && if_loaded == IfLoaded::refuse)
    return already_exists(concat("an adapter '", printable(name), "' is loaded"));
  if (!there && std::ssize(loaded_) >= limits_.max_adapters)
    return resource_exhausted(concat("as many adapters are loaded as may be, ", limits_.max_adapters));
  return ok_status();
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
  const auto of_adapter = [&](const Status& error) {
    return error.annotate(concat("adapter '", printable(adapter.path()), "'"));
  };
  const auto parts = parts_for(*targets, adapter, limits_.max_rank);
  if (!parts) return of_adapter(parts.error());
  const auto made = std::make_shared<Loaded>();
  std::int64_t meanwhile = 0;
  for (const std::vector<TakenPart>& each : *parts) {
    if (each.empty()) continue;
    const FactorSizes sizes = sizes_of(each);
    made->bytes += sizes.right + sizes.left;
    meanwhile = std::max(meanwhile, sizes.meanwhile);
  }
  {
    const std::lock_guard lock(mutex_);
    auto held = reserve(made->bytes + meanwhile);
    if (!held) return of_adapter(held.error());
    made->memory = *std::move(held);
  }
  made->id = AdapterId{++last_id};
  made->name = std::move(name);
  made->path = adapter.path();
  made->identity = identity.empty() ? adapter.identity() : std::move(identity);
  made->factors = cut_all(*parts);
  for (const auto& [tensor, change] : adapter.changes())
    if (change.left) made->rank = std::max(made->rank, static_cast<std::int32_t>(change.left->columns()));

  const std::lock_guard lock(mutex_);
  PAGODA_RETURN_IF_ERROR(check_room(made->name, if_loaded));  // other adapters may have been added meanwhile
  if (made->memory.bytes() > 0) CHECK(made->memory.try_resize(made->bytes));
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
