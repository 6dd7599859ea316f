#pragma once
// PAGODA_ASSIGN_OR_RETURN(const Header header, read_header(file)); declares `header` with the value of a
// Result, or returns the error from the enclosing function. To assign to an existing variable: (header, ...).
#include <utility>

#include "base/status.h"

#define PAGODA_JOIN_(a, b) a##b
#define PAGODA_JOIN(a, b) PAGODA_JOIN_(a, b)
#define PAGODA_ASSIGN_OR_RETURN_AS_(result, declaration, ...) \
  auto result = (__VA_ARGS__);                                \
  if (!result) return result.error();                         \
  declaration = *std::move(result)
#define PAGODA_ASSIGN_OR_RETURN(declaration, ...) \
  PAGODA_ASSIGN_OR_RETURN_AS_(PAGODA_JOIN(result_, __LINE__), declaration, __VA_ARGS__)
