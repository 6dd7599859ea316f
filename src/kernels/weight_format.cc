#include "kernels/weight_format.h"

#include "kernels/formats/formats.h"

namespace pagoda {
namespace {

constexpr const WeightFormat* kFormats[] = {
#define PAGODA_DTYPE(type, name, elements, bytes, gguf) &formats::type,
#include "tensor/dtypes.def"
#undef PAGODA_DTYPE
};

}  // namespace

const WeightFormat& weight_format(DType dtype) { return *kFormats[static_cast<std::size_t>(dtype)]; }

}  // namespace pagoda
