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

Result<PackedLinear> WeightStore::matrix(const std::string& recipe, const PackedShape& shape,
                                         const std::function<Result<PackedLinear>()>& pack) {
  if (checking_) return PackedLinear{};
  if (file_ != nullptr) {
    const PackedPiece* const piece = file_->find(recipe);
    if (piece == nullptr) return not_found(concat("the packed file has no '", recipe, "'"));
    auto matrix = PackedLinear::map(piece->description, piece->bytes, file_);
    if (matrix && PackedShape{matrix->type(), matrix->n(), matrix->k()} != shape)
      return corrupt_data(concat("the packed file was made with another '", recipe, "'"));
    return matrix;
  }
  Result<PackedLinear> matrix = pack();
  if (matrix) pieces_.push_back({recipe, matrix->description(), matrix->bytes()});
  return matrix;
}

Result<TensorView> WeightStore::rows(const std::string& recipe, const TensorView& source,
                                     const std::function<void(std::byte*)>& copy) {
  const auto bytes = static_cast<std::size_t>(source.bytes());
  TensorView view = source;
  if (checking_) return view;
  if (file_ != nullptr) {
    const PackedPiece* const piece = file_->find(recipe);
    if (piece == nullptr || piece->bytes.size() != bytes)
      return not_found(concat("the packed file has no '", recipe, "'"));
    view.data = piece->bytes.data();
    file_->give_back(*piece);  // rows are looked up one by one
    return view;
  }
  auto memory = Memory::reserve(bytes);
  if (!memory) return memory.error();
  copy(memory->data());
  view.data = memory->data();
  pieces_.push_back({recipe, "", {view.data, bytes}});
  owners_.push_back(std::make_shared<const Memory>(*std::move(memory)));
  return view;
}

}  // namespace pagoda
