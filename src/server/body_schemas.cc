#include "server/body_schemas.h"

#include <algorithm>

namespace pagoda {
namespace {

struct BodySchema {
  std::string_view path, schema;
};
constexpr BodySchema kSchemas[] = {
    {"", "{}"},
#include "server/body_schemas.inc"
};

}  // namespace

std::string_view body_schema(std::string_view path) {
  const auto* found = std::ranges::find(kSchemas, path, &BodySchema::path);
  return path.empty() || found == std::end(kSchemas) ? std::string_view() : found->schema;
}

}  // namespace pagoda
