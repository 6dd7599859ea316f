// Goal: an Xid error of the hardware loses the device, whether anything runs or not; those of programs and
// warnings do not. A missing library, a missing call and each call that fails are said, and nothing is left
// open. Against a fake library (fake_nvml.cpp): no GPU has been asked.
#include "device/cuda/xid_watch.h"

#include <gtest/gtest.h>

#include <future>

#include "device/cuda/fake_library.h"

namespace pagoda::device {
namespace {

const char* const kFakeNvml[] = {"libnone.so.1", PAGODA_FAKE_NVML};
const char* const kGpu = "00000000:65:00.0";

class XidWatchTest : public ::testing::Test {
 protected:
  ~XidWatchTest() override { EXPECT_EQ(fake_.alive(), 0); }
  void reset(const char* fail, int error) { fake_.reset(fail, error); }
  void event(unsigned long long xid, unsigned long long type = 8) {
    fake_.find<void(unsigned long long, unsigned long long)>("fake_event")(type, xid);
  }
  bool taken() { return fake_.find<bool()>("fake_taken")(); }
  void fail_wait(int error) { fake_.find<void(int)>("fake_fail_wait")(error); }
  Result<std::unique_ptr<XidWatch>> start(const char* gpu = kGpu) {
    return XidWatch::start(gpu, [this](Status status) { said_.set_value(std::move(status)); }, kFakeNvml);
  }
  // The watch's word; ok: nothing within `wait`.
  Status said(std::chrono::milliseconds wait = std::chrono::seconds(10)) {
    auto future = said_.get_future();
    return future.wait_for(wait) == std::future_status::ready ? future.get() : ok_status();
  }

 private:
  FakeLibrary fake_{PAGODA_FAKE_NVML};
  std::promise<Status> said_;
};

TEST_F(XidWatchTest, AnErrorOfTheHardwareLosesTheDevice) {
  const auto watch = start();
  ASSERT_TRUE(watch) << watch.error().message();
  event(79);
  const Status status = said();
  EXPECT_EQ(status.code(), StatusCode::unavailable);
  EXPECT_EQ(status.message(), "Xid 79 of the GPU at 00000000:65:00.0: GPU has fallen off the bus");
  event(48);  // nobody asks any more
}

TEST_F(XidWatchTest, ErrorsOfProgramsAndWarningsDoNot) {
  const auto watch = start();
  ASSERT_TRUE(watch);
  for (const unsigned long long xid : {13, 31, 43, 45, 63, 68, 74, 92, 94, 109, 999}) event(xid);
  event(79, 2);  // another type of event, whose data are no Xid
  EXPECT_TRUE(taken());
  event(95);
  EXPECT_EQ(said().message(), "Xid 95 of the GPU at 00000000:65:00.0: uncontained ECC error");
}

TEST_F(XidWatchTest, AGpuThatIsGoneIsLost) {
  const auto watch = start();
  ASSERT_TRUE(watch);
  fail_wait(15);
  EXPECT_EQ(said().message(), "the GPU at 00000000:65:00.0 is lost");
}

TEST_F(XidWatchTest, AWaitThatFailsLosesNothing) {
  const auto watch = start();
  ASSERT_TRUE(watch);
  fail_wait(999);
  EXPECT_TRUE(said(std::chrono::milliseconds(100)).ok());
}

TEST_F(XidWatchTest, WhatIsMissingIsSaid) {
  const char* const none[] = {"libnone.so.1"};
  const auto absent = XidWatch::start(kGpu, [](const Status&) {}, none);
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().message(), "there is no libnone.so.1 here");
  const char* const other[] = {"libm.so.6"};
  const auto wrong = XidWatch::start(kGpu, [](const Status&) {}, other);
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().message(), "libm.so.6 has no nvmlInit_v2");
  const auto nowhere = start("00000000:66:00.0");
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().message(), "nvmlDeviceGetHandleByPciBusId_v2: Some Error");
}

TEST_F(XidWatchTest, EachCallThatFailsIsSaidAndNothingStaysOpen) {
  for (const char* const call : {"nvmlInit_v2", "nvmlDeviceGetHandleByPciBusId_v2", "nvmlEventSetCreate",
                                 "nvmlDeviceRegisterEvents"}) {
    reset(call, 3);
    const auto watch = start();
    ASSERT_FALSE(watch) << call;
    EXPECT_EQ(watch.error().message(), std::string(call) + ": Not Supported");
  }
}

}  // namespace
}  // namespace pagoda::device
