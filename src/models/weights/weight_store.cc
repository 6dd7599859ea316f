#include "models/weights/weight_store.h"

#include <utility>

#include "base/assign_or_return.h"
#include "base/strings.h"
#include "tensor/memory.h"

namespace pagoda {

WeightStore::WeightStore(Sources of) : of_(std::move(of)) {
  const auto keep = [&](std::shared_ptr<const void> owner) {
    if (owner != nullptr) owners_.push_back(std::move(owner));
  };
  keep(of_.file);
  keep(of_.shared);
  keep(of_.sharing);
}

std::shared_ptr<const void> WeightStore::source() const {
  if (of_.file != nullptr) return of_.file;
  return of_.shared;
}

const PackedPiece* WeightStore::find(const std::string& recipe) const {
  if (of_.file != nullptr) return of_.file->find(recipe);
  const auto known = of_.shared->pieces.find(recipe);
  return known == of_.shared->pieces.end() ? nullptr : &known->second;
}

Result<PackedLinear> WeightStore::matrix(const std::string& recipe, const PackedShape& shape,
                                         const std::function<Result<PackedLinear>()>& pack) {
  if (of_.checking) return PackedLinear{};
  if (const std::shared_ptr<const void> owner = source()) {
    const PackedPiece* const piece = find(recipe);
    if (piece == nullptr) return not_found(concat("the packed file has no '", recipe, "'"));
    auto matrix = PackedLinear::map(piece->description, piece->bytes, owner);
    if (matrix && PackedShape{matrix->type(), matrix->n(), matrix->k()} != shape)
      return corrupt_data(concat("the packed file was made with another '", recipe, "'"));
    return matrix;
  }
  Result<PackedLinear> matrix = pack();
  if (!matrix) return matrix;
  if (of_.sharing != nullptr) {
    const auto kept = std::make_shared<const PackedLinear>(*std::move(matrix));
    of_.sharing->pieces[recipe] = {.description = kept->description(), .bytes = kept->bytes()};
    of_.sharing->owners.push_back(kept);
    matrix = PackedLinear::map(kept->description(), kept->bytes(), of_.sharing);
    if (!matrix) return matrix;
  }
  pieces_.push_back({recipe, matrix->description(), matrix->bytes()});
  return matrix;
}

Result<TensorView> WeightStore::rows(const std::string& recipe, const TensorView& source,
                                     const std::function<void(std::byte*)>& copy) {
  const auto bytes = static_cast<std::size_t>(source.bytes());
  TensorView view = source;
  if (of_.checking) return view;
  if (this->source() != nullptr) {
    const PackedPiece* const piece = find(recipe);
    if (piece == nullptr || piece->bytes.size() != bytes)
      return not_found(concat("the packed file has no '", recipe, "'"));
    view.data = piece->bytes.data();
    if (of_.file != nullptr) of_.file->give_back(*piece);  // rows are looked up individually
    return view;
  }
  PAGODA_ASSIGN_OR_RETURN(auto memory, Memory::reserve(bytes));
  copy(memory.data());
  view.data = memory.data();
  pieces_.push_back({recipe, "", {view.data, bytes}});
  const auto kept = std::make_shared<const Memory>(std::move(memory));
  if (of_.sharing != nullptr) {
    of_.sharing->pieces[recipe] = {.description = "", .bytes = {view.data, bytes}};
    of_.sharing->owners.push_back(kept);
  } else {
    owners_.push_back(kept);
  }
  return view;
}

}  // namespace pagoda
