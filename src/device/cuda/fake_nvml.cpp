// A library with NVML's calls, for xid_watch_test.cc: one GPU, whose events the test creates. It logs the
// calls, counts what is not released, and fails on request. Based only on the documentation of the calls.
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <string>

namespace {

struct Event {
  void* gpu;
  unsigned long long type, data;
  unsigned gpu_instance, compute_instance;
};
constexpr int kOk = 0, kInvalid = 2, kUnsupported = 3, kNotFound = 6, kTimeout = 10;

std::mutex mutex;
std::condition_variable arrived;
std::string failing;
int failing_error = 0, alive = 0, failed_wait = 0;
std::deque<Event> waiting;
unsigned long long wanted = 0;
int the_gpu = 0, the_events = 0;

int answer(const char* name) { return failing == name ? failing_error : kOk; }

}  // namespace

extern "C" {

int nvmlInit_v2() {
  const std::lock_guard lock(mutex);
  if (const int error = answer("nvmlInit_v2")) return error;
  ++alive;
  return kOk;
}
int nvmlShutdown() {
  const std::lock_guard lock(mutex);
  --alive;
  return kOk;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* address, void** gpu) {
  const std::lock_guard lock(mutex);
  if (std::strcmp(address, "00000000:65:00.0") != 0) return kNotFound;
  *gpu = &the_gpu;
  return answer("nvmlDeviceGetHandleByPciBusId_v2");
}
int nvmlEventSetCreate(void** events) {
  const std::lock_guard lock(mutex);
  if (const int error = answer("nvmlEventSetCreate")) return error;
  ++alive;
  *events = &the_events;
  return kOk;
}
int nvmlEventSetFree(void* events) {
  const std::lock_guard lock(mutex);
  if (events != &the_events) return kInvalid;
  --alive;
  return kOk;
}
int nvmlDeviceRegisterEvents(void* gpu, unsigned long long types, void* events) {
  const std::lock_guard lock(mutex);
  if (gpu != &the_gpu || events != &the_events) return kInvalid;
  if (types != 8) return kUnsupported;
  wanted = types;
  return answer("nvmlDeviceRegisterEvents");
}
int nvmlEventSetWait_v2(void* events, Event* event, unsigned milliseconds) {
  std::unique_lock lock(mutex);
  if (events != &the_events || wanted == 0) return kInvalid;
  arrived.wait_for(lock, std::chrono::milliseconds(milliseconds),
                   [] { return !waiting.empty() || failed_wait != 0; });
  if (failed_wait != 0) return failed_wait;
  if (waiting.empty()) return kTimeout;
  *event = waiting.front();
  waiting.pop_front();
  arrived.notify_all();
  return kOk;
}
const char* nvmlErrorString(int error) { return error == kUnsupported ? "Not Supported" : "Some Error"; }

void fake_reset(const char* fail, int error) {
  const std::lock_guard lock(mutex);
  failing = fail;
  failing_error = error;
  failed_wait = 0;
  waiting.clear();
  wanted = 0;
}
void fake_event(unsigned long long type, unsigned long long data) {
  const std::lock_guard lock(mutex);
  waiting.push_back({&the_gpu, type, data, ~0u, ~0u});
  arrived.notify_all();
}
void fake_fail_wait(int error) {
  const std::lock_guard lock(mutex);
  failed_wait = error;
  arrived.notify_all();
}
// Waits until all events have been taken; false if not within ten seconds.
bool fake_taken() {
  std::unique_lock lock(mutex);
  return arrived.wait_for(lock, std::chrono::seconds(10), [] { return waiting.empty(); });
}
int fake_alive() {
  const std::lock_guard lock(mutex);
  return alive;
}
}
