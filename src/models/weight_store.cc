#include "models/weight_store.h"

#include <cstring>
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

WeightStore WeightStore::written(PackedFileWriter& writer, ThreadPool* pool,
                                 std::function<void(std::int64_t)> on_read) {
  WeightStore store;
  store.writer_ = &writer;
  store.pool_ = pool;
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
  if (!matrix || writer_ == nullptr) return matrix;
  PAGODA_RETURN_IF_ERROR(writer_->add(recipe, matrix->description(), matrix->bytes(), pool_));
  matrix->release();
  return matrix;
}

Result<TensorView> WeightStore::rows(const std::string& recipe, const TensorView& source) {
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
  if (writer_ != nullptr) {
    PAGODA_RETURN_IF_ERROR(writer_->add(recipe, "", {source.data, bytes}, pool_));
    return view;
  }
  auto memory = Memory::reserve(bytes);
  if (!memory) return memory.error();
  std::memcpy(memory->data(), source.data, bytes);
  view.data = memory->data();
  owners_.push_back(std::make_shared<const Memory>(*std::move(memory)));
  return view;
}

}  // namespace pagoda
