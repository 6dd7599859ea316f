#include "tensor/linear_arithmetic.h"

#include "base/strings.h"

namespace pagoda {

std::string linear_arithmetic_text(const LinearArithmetic& arithmetic) {
  if (arithmetic.is_own()) return {};
  const std::string number = arithmetic.number == InputNumber::int8 ? "int8" : "e4m3";
  switch (arithmetic.scales) {
    case InputScale::row:
      return number + " by token";
    case InputScale::group:
      return concat(number, " in groups of ", arithmetic.group);
    case InputScale::fixed:
      return number + " with fixed scales";
  }
  return {};
}

}  // namespace pagoda
