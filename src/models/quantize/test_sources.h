#pragma once
// For tests of files and folders that were written: them as models are opened.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "loader/model_source.h"

namespace pagoda::testing {

inline std::unique_ptr<ModelSource> opened(const std::string& path) {
  auto source = ModelSource::open(path);
  EXPECT_TRUE(source) << source.error().message();
  return source ? *std::move(source) : nullptr;
}

}  // namespace pagoda::testing
