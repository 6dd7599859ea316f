#include "models/weight_names.h"

namespace pagoda {

std::string numbered(std::string name, std::int64_t number) {
  const std::size_t at = name.find("{}");
  return at == name.npos ? name : name.replace(at, 2, std::to_string(number));
}

}  // namespace pagoda
