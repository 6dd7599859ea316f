#include "device/cuda/cublaslt.h"

#include <array>

#include "base/opened_library.h"
#include "base/strings.h"

namespace pagoda::device {
namespace {

// The library's types and numbers, as documented.
using Descriptor = void*;
struct Algorithm {
  std::uint64_t data[8];
};
struct Found {
  Algorithm algorithm;
  std::size_t workspace_bytes;
  int status;
  float waves;
  int reserved[4];
};
constexpr int kCublasSuccess = 0, kFloat = 0, kBfloat16 = 14, kComputeFloat = 68;
constexpr int kTransposeA = 3, kTransposeB = 4, kEpilogue = 7, kBiasPointer = 8;
constexpr std::int32_t kPlain = 0, kTransposed = 1;
constexpr std::uint32_t kEpilogueBias = 4;
constexpr int kMaxWorkspace = 1;

constexpr std::array kCublasLtNames = {"libcublasLt.so.13", "libcublasLt.so.12"};
// Maximum number of cached plans: batches have all sizes.
constexpr std::size_t kMaxPlans = 512;

const char* name_of(int status) {
  switch (status) {
    case 1:
      return "not initialized";
    case 3:
      return "allocation failed";
    case 7:
      return "invalid value";
    case 8:
      return "architecture mismatch";
    case 13:
      return "execution failed";
    case 14:
      return "internal error";
    case 15:
      return "not supported";
    default:
      return "an error";
  }
}

}  // namespace

struct CublasLt::Library : OpenedLibrary {
  std::size_t (*version)() = nullptr;
  int (*create)(void** handle) = nullptr;
  int (*destroy)(void* handle) = nullptr;
  int (*product_create)(Descriptor*, int compute, int scale) = nullptr;
  int (*product_set)(Descriptor, int attribute, const void* value, std::size_t bytes) = nullptr;
  int (*product_destroy)(Descriptor) = nullptr;
  int (*layout_create)(Descriptor*, int type, std::uint64_t rows, std::uint64_t columns,
                       std::int64_t stride) = nullptr;
  int (*layout_destroy)(Descriptor) = nullptr;
  int (*preference_create)(Descriptor*) = nullptr;
  int (*preference_set)(Descriptor, int attribute, const void* value, std::size_t bytes) = nullptr;
  int (*preference_destroy)(Descriptor) = nullptr;
  int (*choose)(void* handle, Descriptor product, Descriptor a, Descriptor b, Descriptor c, Descriptor d,
                Descriptor preference, int wanted, Found* found, int* count) = nullptr;
  int (*multiply)(void* handle, Descriptor product, const void* alpha, const void* a, Descriptor a_layout,
                  const void* b, Descriptor b_layout, const void* beta, const void* c, Descriptor c_layout,
                  void* d, Descriptor d_layout, const Algorithm* algorithm, void* workspace,
                  std::size_t workspace_bytes, void* stream) = nullptr;
};

// The plan for one shape. The library's matrices are column-major: y by rows is its transpose by columns, [n,
// rows] = weight^T of [k, n] by x of [k, rows].
struct CublasLt::Plan {
  const Library* library = nullptr;
  Descriptor product = nullptr, weight = nullptr, x = nullptr, y = nullptr;
  Algorithm algorithm = {};
  std::size_t workspace_bytes = 0;

  ~Plan() {
    for (const Descriptor layout : {weight, x, y})
      if (layout != nullptr) library->layout_destroy(layout);
    if (product != nullptr) library->product_destroy(product);
  }
};

CublasLt::CublasLt() = default;

CublasLt::~CublasLt() {
  plans_.clear();
  if (handle_ != nullptr) library_->destroy(handle_);
}

Result<std::unique_ptr<CublasLt::Library>> CublasLt::look_up(std::span<const char* const> names) {
  if (names.empty()) names = kCublasLtNames;
  auto found = std::make_unique<Library>();
  Library& l = *found;
  PAGODA_RETURN_IF_ERROR(l.open(names));
  PAGODA_RETURN_IF_ERROR(l.find("cublasLtGetVersion", l.version));
  PAGODA_RETURN_IF_ERROR(l.find("cublasLtCreate", l.create));
  PAGODA_RETURN_IF_ERROR(l.find("cublasLtDestroy", l.destroy));
  PAGODA_RETURN_IF_ERROR(l.find("cublasLtMatmulDescCreate", l.product_create));
  PAGODA_RETURN_IF_ERROR(l.find("cublasLtMatmulDescSetAttribute", l.product_set));
  PAGODA_RETURN_IF_ERROR(l.find("cublasLtMatmulDescDestroy", l.product_destroy));
  PAGODA_RETURN_IF_ERROR(l.find("cublasLtMatrixLayoutCreate", l.layout_create));
  PAGODA_RETURN_IF_ERROR(l.find("cublasLtMatrixLayoutDestroy", l.layout_destroy));
  PAGODA_RETURN_IF_ERROR(l.find("cublasLtMatmulPreferenceCreate", l.preference_create));
  PAGODA_RETURN_IF_ERROR(l.find("cublasLtMatmulPreferenceSetAttribute", l.preference_set));
  PAGODA_RETURN_IF_ERROR(l.find("cublasLtMatmulPreferenceDestroy", l.preference_destroy));
  PAGODA_RETURN_IF_ERROR(l.find("cublasLtMatmulAlgoGetHeuristic", l.choose));
  PAGODA_RETURN_IF_ERROR(l.find("cublasLtMatmul", l.multiply));
  return found;
}

Result<std::unique_ptr<CublasLt>> CublasLt::open(std::span<const char* const> names) {
  auto library = look_up(names);
  if (!library) return library.error();
  std::unique_ptr<CublasLt> opened(new CublasLt);
  opened->library_ = *std::move(library);
  PAGODA_RETURN_IF_ERROR(opened->check(opened->library_->create(&opened->handle_), "cublasLtCreate"));
  return opened;
}

std::string CublasLt::describe(std::span<const char* const> names) {
  const auto library = look_up(names);
  if (!library) return std::string(library.error().message());
  return concat((*library)->name, ", version ", (*library)->version());
}

Status CublasLt::check(int status, const char* call) const {
  if (status == kCublasSuccess) return ok_status();
  return internal_error(concat(library_->name, ": ", call, ": ", name_of(status), " (", status, ")"));
}

Result<CublasLt::Plan*> CublasLt::plan_for(const ProductArgs& args, std::size_t workspace_bytes) {
  const Shape shape = {args.rows, args.n, args.k, args.bias != nullptr};
  if (const auto found = plans_.find(shape); found != plans_.end()) return found->second.get();
  const Library& l = *library_;
  auto plan = std::make_unique<Plan>();
  plan->library = &l;
  const auto layout = [&](Descriptor& of, int type, std::int32_t rows, std::int32_t columns) {
    return check(l.layout_create(&of, type, static_cast<std::uint64_t>(rows),
                                 static_cast<std::uint64_t>(columns), rows),
                 "cublasLtMatrixLayoutCreate");
  };
  const auto set = [&](int attribute, const auto& value) {
    return check(l.product_set(plan->product, attribute, &value, sizeof value),
                 "cublasLtMatmulDescSetAttribute");
  };
  PAGODA_RETURN_IF_ERROR(
      check(l.product_create(&plan->product, kComputeFloat, kFloat), "cublasLtMatmulDescCreate"));
  PAGODA_RETURN_IF_ERROR(set(kTransposeA, kTransposed));
  PAGODA_RETURN_IF_ERROR(set(kTransposeB, kPlain));
  if (args.bias != nullptr) PAGODA_RETURN_IF_ERROR(set(kEpilogue, kEpilogueBias));
  PAGODA_RETURN_IF_ERROR(layout(plan->weight, kBfloat16, args.k, args.n));
  PAGODA_RETURN_IF_ERROR(layout(plan->x, kBfloat16, args.k, args.rows));
  PAGODA_RETURN_IF_ERROR(layout(plan->y, kFloat, args.n, args.rows));

  Descriptor preference = nullptr;
  PAGODA_RETURN_IF_ERROR(check(l.preference_create(&preference), "cublasLtMatmulPreferenceCreate"));
  const std::uint64_t most = workspace_bytes;
  Status status = check(l.preference_set(preference, kMaxWorkspace, &most, sizeof most),
                        "cublasLtMatmulPreferenceSetAttribute");
  Found found = {};
  int count = 0;
  if (status.ok())
    status = check(l.choose(handle_, plan->product, plan->weight, plan->x, plan->y, plan->y, preference, 1,
                            &found, &count),
                   "cublasLtMatmulAlgoGetHeuristic");
  l.preference_destroy(preference);
  PAGODA_RETURN_IF_ERROR(status);
  if (count < 1 || found.status != kCublasSuccess || found.workspace_bytes > workspace_bytes)
    return internal_error(
        concat(l.name, " has no way to multiply ", args.rows, " rows of ", args.k, " by ", args.n));
  plan->algorithm = found.algorithm;
  plan->workspace_bytes = found.workspace_bytes;
  if (plans_.size() >= kMaxPlans) plans_.clear();
  return plans_.emplace(shape, std::move(plan)).first->second.get();
}

Status CublasLt::multiply(void* stream, const ProductArgs& args, std::byte* workspace,
                          std::size_t workspace_bytes) {
  auto found = plan_for(args, workspace_bytes);
  if (!found) return found.error();
  const Plan& plan = **found;
  const Library& l = *library_;
  if (args.bias != nullptr)
    PAGODA_RETURN_IF_ERROR(check(l.product_set(plan.product, kBiasPointer, &args.bias, sizeof args.bias),
                                 "cublasLtMatmulDescSetAttribute"));
  const float alpha = 1, beta = args.accumulate != 0 ? 1.0f : 0.0f;
  return check(
      l.multiply(handle_, plan.product, &alpha, args.weight, plan.weight, args.x, plan.x, &beta, args.y,
                 plan.y, args.y, plan.y, &plan.algorithm, workspace, plan.workspace_bytes, stream),
      "cublasLtMatmul");
}

}  // namespace pagoda::device
