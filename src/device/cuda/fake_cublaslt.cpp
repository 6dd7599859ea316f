// A library with cuBLASLt's calls, for cublaslt_test.cc: logs each call with its arguments, multiplies in
// host memory as the descriptors say, counts objects that are not destroyed, and fails on request. Based only
// on the documentation of the calls, so that a wrong order of arguments or a swapped layout shows as a wrong
// product.
#include <bit>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>

namespace {

std::string log, failing;
int alive = 0, failing_status = 0;

struct Object {
  std::string kind;
  int type = 0;  // element type of a layout
  std::uint64_t rows = 0, columns = 0;
  std::int64_t stride = 0;
  std::map<int, std::string> attributes = {};  // as bytes
};

int call(const char* name, const std::string& arguments) {
  log += std::string(name) + "(" + arguments + ") ";
  return failing == name ? failing_status : 0;
}

Object* object(void* handle, const char* kind) {
  auto* const found = static_cast<Object*>(handle);
  return found != nullptr && found->kind == kind ? found : nullptr;
}

int create(void** out, const char* kind) {
  *out = new Object{.kind = kind};
  ++alive;
  return 0;
}
int destroy(void* handle, const char* kind) {
  if (object(handle, kind) == nullptr) return 7;
  delete static_cast<Object*>(handle);
  --alive;
  return 0;
}

template <class T>
T attribute(const Object& of, int which, T otherwise) {
  const auto found = of.attributes.find(which);
  if (found == of.attributes.end() || found->second.size() != sizeof(T)) return otherwise;
  T value;
  std::memcpy(&value, found->second.data(), sizeof value);
  return value;
}

// Element (row, column) of a column-major matrix.
float element(const void* data, const Object& layout, std::uint64_t row, std::uint64_t column) {
  const auto at = row + column * static_cast<std::uint64_t>(layout.stride);
  if (layout.type == 0) return static_cast<const float*>(data)[at];
  return std::bit_cast<float>(static_cast<std::uint32_t>(static_cast<const std::uint16_t*>(data)[at]) << 16);
}

}  // namespace

extern "C" {

const char* fake_log() { return log.c_str(); }
int fake_alive() { return alive; }
void fake_reset(const char* fail, int status) {
  log.clear();
  failing = fail;
  failing_status = status;
}

std::size_t cublasLtGetVersion() { return 130001; }
int cublasLtCreate(void** handle) {
  if (const int status = call("Create", "")) return status;
  return create(handle, "handle");
}
int cublasLtDestroy(void* handle) { return destroy(handle, "handle"); }

int cublasLtMatmulDescCreate(void** out, int compute, int scale) {
  if (const int status = call("MatmulDescCreate", std::to_string(compute) + " " + std::to_string(scale)))
    return status;
  return create(out, "product");
}
int cublasLtMatmulDescSetAttribute(void* handle, int which, const void* value, std::size_t bytes) {
  if (const int status = call("MatmulDescSetAttribute", std::to_string(which) + " " + std::to_string(bytes)))
    return status;
  Object* const product = object(handle, "product");
  if (product == nullptr) return 7;
  product->attributes[which] = std::string(static_cast<const char*>(value), bytes);
  return 0;
}
int cublasLtMatmulDescDestroy(void* handle) { return destroy(handle, "product"); }

int cublasLtMatrixLayoutCreate(void** out, int type, std::uint64_t rows, std::uint64_t columns,
                               std::int64_t stride) {
  if (const int status =
          call("MatrixLayoutCreate", std::to_string(type) + " " + std::to_string(rows) + " " +
                                         std::to_string(columns) + " " + std::to_string(stride)))
    return status;
  create(out, "layout");
  auto* const layout = static_cast<Object*>(*out);
  layout->type = type;
  layout->rows = rows;
  layout->columns = columns;
  layout->stride = stride;
  return 0;
}
int cublasLtMatrixLayoutDestroy(void* handle) { return destroy(handle, "layout"); }

int cublasLtMatmulPreferenceCreate(void** out) {
  if (const int status = call("MatmulPreferenceCreate", "")) return status;
  return create(out, "preference");
}
int cublasLtMatmulPreferenceSetAttribute(void* handle, int which, const void* value, std::size_t bytes) {
  std::uint64_t number = 0;
  if (bytes == sizeof number) std::memcpy(&number, value, bytes);
  if (const int status =
          call("MatmulPreferenceSetAttribute", std::to_string(which) + " " + std::to_string(number)))
    return status;
  return object(handle, "preference") != nullptr ? 0 : 7;
}
int cublasLtMatmulPreferenceDestroy(void* handle) { return destroy(handle, "preference"); }

struct FakeFound {
  std::uint64_t algorithm[8];
  std::size_t workspace_bytes;
  int status;
  float waves;
  int reserved[4];
};
// failing "none": it finds nothing; "large": what it finds needs more workspace than available.
int cublasLtMatmulAlgoGetHeuristic(void* handle, void* product, void* a, void* b, void* c, void* d,
                                   void* preference, int wanted, FakeFound* found, int* count) {
  if (const int status = call("MatmulAlgoGetHeuristic", std::to_string(wanted))) return status;
  if (object(handle, "handle") == nullptr || object(product, "product") == nullptr ||
      object(preference, "preference") == nullptr || wanted < 1)
    return 7;
  for (void* const layout : {a, b, c, d})
    if (object(layout, "layout") == nullptr) return 7;
  *found = {};
  for (std::uint64_t i = 0; i < 8; ++i) found->algorithm[i] = 40 + i;
  found->workspace_bytes = failing == "large" ? std::size_t{1} << 40 : 64;
  *count = failing == "none" ? 0 : 1;
  return 0;
}

int cublasLtMatmul(void* handle, void* product, const void* alpha, const void* a, void* a_layout,
                   const void* b, void* b_layout, const void* beta, const void* c, void* c_layout, void* d,
                   void* d_layout, const std::uint64_t* algorithm, void* workspace,
                   std::size_t workspace_bytes, void* stream) {
  if (const int status = call("Matmul", std::to_string(workspace_bytes) + " " +
                                            std::to_string(reinterpret_cast<std::uintptr_t>(stream))))
    return status;
  const Object *of = object(product, "product"), *left = object(a_layout, "layout"),
               *right = object(b_layout, "layout"), *before = object(c_layout, "layout"),
               *out = object(d_layout, "layout");
  if (object(handle, "handle") == nullptr || of == nullptr || left == nullptr || right == nullptr ||
      before == nullptr || out == nullptr || workspace == nullptr || algorithm[0] != 40 || algorithm[7] != 47)
    return 7;
  const bool turn_left = attribute<std::int32_t>(*of, 3, 0) == 1,
             turn_right = attribute<std::int32_t>(*of, 4, 0) == 1;
  const std::uint64_t rows = turn_left ? left->columns : left->rows,
                      depth = turn_left ? left->rows : left->columns,
                      columns = turn_right ? right->rows : right->columns;
  if (out->type != 0 || out->rows != rows || out->columns != columns ||
      depth != (turn_right ? right->columns : right->rows))
    return 7;
  const auto* const bias =
      attribute<std::uint32_t>(*of, 7, 1) == 4 ? attribute<const float*>(*of, 8, nullptr) : nullptr;
  for (std::uint64_t row = 0; row < rows; ++row)
    for (std::uint64_t column = 0; column < columns; ++column) {
      float sum = 0;
      for (std::uint64_t i = 0; i < depth; ++i)
        sum += (turn_left ? element(a, *left, i, row) : element(a, *left, row, i)) *
               (turn_right ? element(b, *right, column, i) : element(b, *right, i, column));
      const float scale = *static_cast<const float*>(beta);
      float value = *static_cast<const float*>(alpha) * sum;
      if (scale != 0) value += scale * element(c, *before, row, column);
      if (bias != nullptr) value += bias[row];
      static_cast<float*>(d)[row + column * static_cast<std::uint64_t>(out->stride)] = value;
    }
  return 0;
}

}  // extern "C"
