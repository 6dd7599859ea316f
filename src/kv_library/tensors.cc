// The DLPack tensors of include/pagoda_kv.h. A tensor keeps its slot in place while others refer to it.
#include <dlfcn.h>

#include <array>
#include <atomic>
#include <exception>
#include <memory>

#include "base/strings.h"
#include "kv_library/dlpack.h"
#include "kv_library/manager.h"

namespace pagoda::kv_library {
namespace {

using dlpack::ManagedTensor;
using dlpack::VersionedTensor;

// A tensor of either form with its shape, and the references that it holds.
template <class Form>
struct Held {
  Form form;
  std::array<std::int64_t, 4> shape = {}, strides = {};
  pagoda_kv* kv = nullptr;
  std::int32_t reqid = -1;

  static void let_go(Form* form) {
    const std::unique_ptr<Held> held(static_cast<Held*>(form->context));
    if (held->reqid >= 0)
      held->kv->tensors[static_cast<std::size_t>(held->reqid)].fetch_sub(1, std::memory_order_release);
    pagoda_kv::drop(held->kv);
  }
};

template <class Form>
void* make(pagoda_kv& kv, const pagoda_kv_tensor_request& request, const pagoda_kv::Sequence* sequence) {
  auto held = std::make_unique<Held<Form>>();
  const pagoda_kv_config& c = kv.config;
  const std::int64_t head = c.head_size, token = kv.token_bytes / c.element_size;
  std::byte* data = kv.tensor_at(request.layer, request.values != 0 ? 1 : 0);
  dlpack::Tensor& tensor = held->form.tensor;
  if (sequence != nullptr) {
    data += request.reqid * kv.slot_stride();
    tensor.ndim = 3;
    held->shape = {sequence->num_tokens, c.num_heads, head};
    held->strides = {token, head, 1};
  } else {
    tensor.ndim = 4;
    held->shape = {c.max_batch, c.max_context, c.num_heads, head};
    held->strides = {kv.slot_stride() / c.element_size, token, head, 1};
  }
  tensor.data = data;
  if (c.cuda_driver != nullptr) tensor.device = {.type = dlpack::kCuda, .id = c.cuda_device};
  tensor.type = {.code = static_cast<std::uint8_t>(request.type),
                 .bits = static_cast<std::uint8_t>(8 * c.element_size)};
  tensor.shape = held->shape.data();
  tensor.strides = held->strides.data();
  held->kv = &kv;
  held->reqid = sequence != nullptr ? request.reqid : -1;
  held->form.context = held.get();
  held->form.deleter = Held<Form>::let_go;
  return &held.release()->form;
}

pagoda_kv_status check(pagoda_kv& kv, const pagoda_kv_tensor_request& request) {
  const pagoda_kv_config& c = kv.config;
  if (!kv.broken.empty())
    return fail(PAGODA_KV_SYSTEM,
                concat("an earlier call has failed, and pages may be missing: ", kv.broken));
  if (request.layer < 0 || request.layer >= c.num_layers)
    return fail(PAGODA_KV_INVALID, concat("there is no layer ", request.layer, " of ", c.num_layers));
  if (request.type != PAGODA_KV_FLOAT && request.type != PAGODA_KV_BFLOAT)
    return fail(PAGODA_KV_INVALID,
                concat("a tensor of type ", request.type, ": there are PAGODA_KV_FLOAT and _BFLOAT"));
  if (c.element_size > 8 || (request.type == PAGODA_KV_BFLOAT && c.element_size != 2))
    return fail(PAGODA_KV_INVALID, concat("there are no such numbers of ", c.element_size, " bytes"));
  if (request.reqid < -1 || (request.reqid >= 0 && kv.find(request.reqid) == nullptr))
    return fail(PAGODA_KV_INVALID, concat("slot ", request.reqid, " is not in use"));
  if (c.cuda_driver != nullptr && (request.stream < -1 || request.stream == 0))
    return fail(PAGODA_KV_INVALID, concat("stream ", request.stream, " is none: 1 is CUDA's default stream"));
  return PAGODA_KV_OK;
}

}  // namespace
}  // namespace pagoda::kv_library

extern "C" {

pagoda_kv_status pagoda_kv_tensor(pagoda_kv* kv, const pagoda_kv_tensor_request* request, void** tensor) {
  using namespace pagoda::kv_library;
  if (kv == nullptr || request == nullptr || tensor == nullptr)
    return fail(PAGODA_KV_INVALID, "tensor: a pointer argument is NULL");
  *tensor = nullptr;
  if (const pagoda_kv_status status = check(*kv, *request); status != PAGODA_KV_OK) return status;
  if (kv->config.cuda_driver != nullptr && kv->has_copied && request->stream != -1) {
    const pagoda::Status status = kv->mapper->order(static_cast<std::uint64_t>(request->stream));
    if (!status.ok()) return fail(PAGODA_KV_SYSTEM, status.message());
  }
  pagoda_kv::Sequence* const sequence = request->reqid >= 0 ? kv->find(request->reqid) : nullptr;
  try {
    *tensor = request->versioned != 0 ? make<pagoda::dlpack::VersionedTensor>(*kv, *request, sequence)
                                      : make<pagoda::dlpack::ManagedTensor>(*kv, *request, sequence);
  } catch (const std::exception& error) {
    return fail(PAGODA_KV_NO_MEMORY, error.what());
  }
  kv->references.fetch_add(1, std::memory_order_relaxed);
  if (sequence != nullptr) {
    sequence->seen = true;
    kv->tensors[static_cast<std::size_t>(request->reqid)].fetch_add(1, std::memory_order_relaxed);
  } else {
    kv->all_seen = true;
  }
  return PAGODA_KV_OK;
}

// Uses the Python functions of the host program. Implemented in C++ because a destructor in Python would lose
// the error that the interpreter may be about to raise.
void pagoda_kv_capsule_destructor(void* capsule) {
  static const auto is_valid =
      reinterpret_cast<int (*)(void*, const char*)>(dlsym(RTLD_DEFAULT, "PyCapsule_IsValid"));
  static const auto pointer =
      reinterpret_cast<void* (*)(void*, const char*)>(dlsym(RTLD_DEFAULT, "PyCapsule_GetPointer"));
  if (is_valid == nullptr || pointer == nullptr) return;
  const auto let_go = [&](const char* name, auto* form) {
    if (is_valid(capsule, name) == 0) return;  // consumed: the consumer has renamed the capsule
    form = static_cast<decltype(form)>(pointer(capsule, name));
    form->deleter(form);
  };
  let_go("dltensor", static_cast<pagoda::dlpack::ManagedTensor*>(nullptr));
  let_go("dltensor_versioned", static_cast<pagoda::dlpack::VersionedTensor*>(nullptr));
}

}  // extern "C"
