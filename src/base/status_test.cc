#include "base/status.h"

#include <gtest/gtest.h>

#include <memory>

namespace pagoda {
namespace {

TEST(Status, CarriesCodeMessageParamAndReason) {
  const Status status = invalid_argument("too hot").with_param("temperature").with_reason("out_of_range");
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(status.code(), StatusCode::invalid_argument);
  EXPECT_EQ(status.message(), "too hot");
  EXPECT_EQ(status.param(), "temperature");
  EXPECT_EQ(status.reason(), "out_of_range");
  const Status annotated = status.annotate("request 3");
  EXPECT_EQ(annotated.message(), "request 3: too hot");
  EXPECT_EQ(annotated.param(), "temperature");
  EXPECT_EQ(annotated.code(), StatusCode::invalid_argument);
}

TEST(Status, ReturnIfErrorLeavesWithTheFirst) {
  const auto run = [](const Status& first, int& reached) -> Status {
    PAGODA_RETURN_IF_ERROR(first);
    ++reached;
    return ok_status();
  };
  int reached = 0;
  EXPECT_TRUE(run(ok_status(), reached).ok());
  EXPECT_EQ(run(not_found("x"), reached).code(), StatusCode::not_found);
  EXPECT_EQ(reached, 1);
}

TEST(Result, HoldsAValueOrAnError) {
  Result<std::unique_ptr<int>> value = std::make_unique<int>(7);
  ASSERT_TRUE(value.has_value());
  EXPECT_EQ(**value, 7);
  const std::unique_ptr<int> moved = *std::move(value);
  EXPECT_EQ(*moved, 7);

  const Result<std::unique_ptr<int>> error = corrupt_data("bad magic");
  ASSERT_FALSE(error);
  EXPECT_EQ(error.error().message(), "bad magic");
}

TEST(ResultDeathTest, TakingWhatIsNotThereIsABug) {
  Result<int> error = internal_error("x");
  EXPECT_DEATH((void)error.value(), "CHECK");
  Result<int> value = 1;
  EXPECT_DEATH((void)value.error(), "CHECK");
  EXPECT_DEATH((void)Result<int>(ok_status()), "CHECK");
}

}  // namespace
}  // namespace pagoda
