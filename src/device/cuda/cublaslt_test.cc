// Goal: products go to cuBLASLt as its documentation has them: against a library that writes down the calls
// and multiplies what they say (fake_cublaslt.cpp). A missing library, a missing call and every call that
// fails are an error that names it, and nothing is left undestroyed. The real library has never been called.
#include "device/cuda/cublaslt.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "device/cuda/fake_library.h"

namespace pagoda::device {
namespace {

const char* const kFakeCublaslt[] = {"libnone.so.13", PAGODA_FAKE_CUBLASLT};

struct Product {
  Product(std::int32_t rows, std::int32_t n, std::int32_t k, bool has_bias, bool accumulate)
      : x(numbers(rows * k, 3)), weight(numbers(n * k, 5)), y(static_cast<std::size_t>(rows * n), 100) {
    for (std::int32_t i = 0; i < n; ++i) bias.push_back(static_cast<float>(1000 * i));
    args = {.x = x.data(), .weight = weight.data(), .y = y.data(), .rows = rows, .n = n, .k = k};
    args.bias = has_bias ? bias.data() : nullptr;
    args.accumulate = accumulate ? 1 : 0;
  }
  // Small whole numbers, as bfloat16.
  static std::vector<std::uint16_t> numbers(std::int32_t count, std::int32_t step) {
    std::vector<std::uint16_t> out;
    for (std::int32_t i = 0; i < count; ++i) {
      const auto number = static_cast<float>(i * step % 7 - 3);
      std::uint32_t bits = 0;
      std::memcpy(&bits, &number, sizeof bits);
      out.push_back(static_cast<std::uint16_t>(bits >> 16));
    }
    return out;
  }
  static float value(std::uint16_t bits) {
    const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
    float number = 0;
    std::memcpy(&number, &wide, sizeof number);
    return number;
  }
  std::vector<float> wanted() const {
    std::vector<float> out;
    for (std::int32_t r = 0; r < args.rows; ++r)
      for (std::int32_t c = 0; c < args.n; ++c) {
        float sum = args.accumulate != 0 ? 100 : 0;
        for (std::int32_t i = 0; i < args.k; ++i)
          sum += value(x[static_cast<std::size_t>(r * args.k + i)]) *
                 value(weight[static_cast<std::size_t>(c * args.k + i)]);
        out.push_back(args.bias != nullptr ? sum + bias[static_cast<std::size_t>(c)] : sum);
      }
    return out;
  }
  std::vector<std::uint16_t> x, weight;
  std::vector<float> y, bias;
  ProductArgs args;
};

std::byte workspace[128];
void* const kStream = reinterpret_cast<void*>(std::uintptr_t{77});

TEST(CublasLt, MultipliesAsTheCallsSay) {
  FakeLibrary fake(PAGODA_FAKE_CUBLASLT);
  {
    auto library = CublasLt::open(kFakeCublaslt);
    ASSERT_TRUE(library) << library.error().message();
    for (const bool bias : {false, true})
      for (const bool accumulate : {false, true}) {
        Product product(3, 5, 4, bias, accumulate);
        const std::vector<float> wanted = product.wanted();
        ASSERT_TRUE((*library)->multiply(kStream, product.args, workspace, sizeof workspace).ok());
        EXPECT_EQ(product.y, wanted) << bias << accumulate;
      }
  }
  EXPECT_EQ(fake.alive(), 0);
}

TEST(CublasLt, CallsInTheirOrderAndKeepsWhatWasChosen) {
  FakeLibrary fake(PAGODA_FAKE_CUBLASLT);
  auto library = CublasLt::open(kFakeCublaslt);
  ASSERT_TRUE(library);
  Product product(3, 5, 4, true, false);
  ASSERT_TRUE((*library)->multiply(kStream, product.args, workspace, sizeof workspace).ok());
  EXPECT_EQ(fake.log(),
            "Create() MatmulDescCreate(68 0) MatmulDescSetAttribute(3 4) MatmulDescSetAttribute(4 4) "
            "MatmulDescSetAttribute(7 4) MatrixLayoutCreate(14 4 5 4) MatrixLayoutCreate(14 4 3 4) "
            "MatrixLayoutCreate(0 5 3 5) MatmulPreferenceCreate() MatmulPreferenceSetAttribute(1 128) "
            "MatmulAlgoGetHeuristic(1) MatmulDescSetAttribute(8 8) Matmul(64 77) ");
  fake.reset();
  ASSERT_TRUE((*library)->multiply(kStream, product.args, workspace, sizeof workspace).ok());
  EXPECT_EQ(fake.log(), "MatmulDescSetAttribute(8 8) Matmul(64 77) ");
}

TEST(CublasLt, EveryCallThatFailsIsNamed) {
  FakeLibrary fake(PAGODA_FAKE_CUBLASLT);
  for (const char* const name :
       {"MatmulDescCreate", "MatmulDescSetAttribute", "MatrixLayoutCreate", "MatmulPreferenceCreate",
        "MatmulPreferenceSetAttribute", "MatmulAlgoGetHeuristic", "Matmul"}) {
    SCOPED_TRACE(name);
    {
      auto library = CublasLt::open(kFakeCublaslt);
      ASSERT_TRUE(library);
      fake.reset(name, 14);
      Product product(3, 5, 4, false, false);
      const Status status = (*library)->multiply(kStream, product.args, workspace, sizeof workspace);
      EXPECT_EQ(status.code(), StatusCode::internal);
      EXPECT_NE(status.message().find(std::string("cublasLt") + name + ": internal error (14)"),
                std::string::npos)
          << status.message();
      fake.reset();
      EXPECT_TRUE((*library)->multiply(kStream, product.args, workspace, sizeof workspace).ok());
    }
    EXPECT_EQ(fake.alive(), 0);
  }
  for (const char* const how : {"none", "large"}) {
    auto library = CublasLt::open(kFakeCublaslt);
    fake.reset(how);
    Product product(3, 5, 4, false, false);
    const Status status = (*library)->multiply(kStream, product.args, workspace, sizeof workspace);
    EXPECT_NE(status.message().find("has no way to multiply 3 rows of 4 by 5"), std::string::npos);
    fake.reset();
  }
}

TEST(CublasLt, SaysWhatIsThere) {
  FakeLibrary fake(PAGODA_FAKE_CUBLASLT);
  EXPECT_EQ(CublasLt::describe(kFakeCublaslt), PAGODA_FAKE_CUBLASLT ", version 130001");
  const char* const none[] = {"libnone.so.13"};
  EXPECT_EQ(CublasLt::describe(none), "there is no libnone.so.13 here");
  EXPECT_EQ(CublasLt::open(none).error().code(), StatusCode::unavailable);
  const char* const another[] = {"libm.so.6"};
  EXPECT_EQ(CublasLt::describe(another), "libm.so.6 has no cublasLtGetVersion");
  fake.reset("Create", 1);
  EXPECT_NE(CublasLt::open(kFakeCublaslt).error().message().find("cublasLtCreate: not initialized (1)"),
            std::string::npos);
  EXPECT_EQ(fake.alive(), 0);
}

}  // namespace
}  // namespace pagoda::device
