#include "models/weight_store.h"

#include <utility>

#include "base/strings.h"
#include "tensor/memory.h"

namespace pagoda {

WeightStore WeightStore::checking() {
  WeightStore store;
  store.checking_ = true;
  return store;
}

WeightStore WeightStore::mapped(std::shared_ptr<const PackedFile> file) {
  WeightStore store;
  store.file_ = std::move(file);
  store.owners_.push_back(store.file_);
  return store;
}

WeightStore WeightStore::packed(std::function<void(std::int64_t)> on_read) {
  WeightStore store;
  store.on_read_ = std::move(on_read);
  return store;
}

WeightStore WeightStore::shared(std::shared_ptr<const PackedWeights> packed) {
  WeightStore store;
  store.shared_ = std::move(packed);
  store.owners_.push_back(store.shared_);
  return store;
}

WeightStore WeightStore::sharing(std::shared_ptr<PackedWeights> packed,
                                 std::function<void(std::int64_t)> on_read) {
  WeightStore store = WeightStore::packed(std::move(on_read));
  store.sharing_ = std::move(packed);
  store.owners_.push_back(store.sharing_);
  return store;
}

std::shared_ptr<const void> WeightStore::source() const {
  if (file_ != nullptr) return file_;
  return shared_;
}

const PackedPiece* WeightStore::find(const std::string& recipe) const {
  if (file_ != nullptr) return file_->find(recipe);
  const auto known = shared_->pieces.find(recipe);
  return known == shared_->pieces.end() ? nullptr : &known->second;
}

Result<PackedLinear> WeightStore::matrix(const std::string& recipe, const PackedShape& shape,
                                         const std::function<Result<PackedLinear>()>& pack) {
  if (checking_) return PackedLinear{};
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
  if (sharing_ != nullptr) {
    const auto kept = std::make_shared<const PackedLinear>(*std::move(matrix));
    sharing_->pieces[recipe] = {.description = kept->description(), .bytes = kept->bytes()};
    sharing_->owners.push_back(kept);
    matrix = PackedLinear::map(kept->description(), kept->bytes(), sharing_);
    if (!matrix) return matrix;
  }
  pieces_.push_back({recipe, matrix->description(), matrix->bytes()});
  return matrix;
}

Result<TensorView> WeightStore::rows(const std::string& recipe, const TensorView& source,
                                     const std::function<void(std::byte*)>& copy) {
  const auto bytes = static_cast<std::size_t>(source.bytes());
  TensorView view = source;
  if (checking_) return view;
  if (this->source() != nullptr) {
    const PackedPiece* const piece = find(recipe);
    if (piece == nullptr || piece->bytes.size() != bytes)
      return not_found(concat("the packed file has no '", recipe, "'"));
    view.data = piece->bytes.data();
    if (file_ != nullptr) file_->give_back(*piece);  // rows are looked up one by one
    return view;
  }
  auto memory = Memory::reserve(bytes);
  if (!memory) return memory.error();
  copy(memory->data());
  view.data = memory->data();
  pieces_.push_back({recipe, "", {view.data, bytes}});
  const auto kept = std::make_shared<const Memory>(*std::move(memory));
  if (sharing_ != nullptr) {
    sharing_->pieces[recipe] = {.description = "", .bytes = {view.data, bytes}};
    sharing_->owners.push_back(kept);
  } else {
    owners_.push_back(kept);
  }
  return view;
}

}  // namespace pagoda
