#include "engine/poison_record.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "base/xxh64.h"

namespace pagoda {
namespace {

constexpr std::uint64_t kMagic = 0x33'4e'4f'53'49'4f'50'50;  // "PPOISON3"
constexpr std::size_t kMaxInStep = 1024, kMaxCondemned = 256;
constexpr std::int64_t kAloneSeconds = 86'400, kAmongOthersSeconds = 600;

struct Condemned {
  RequestDigest digest{};
  std::int64_t until = 0;
};

std::atomic<std::uint32_t>* fatal_mark = nullptr;

void on_fatal_signal(int) {
  if (fatal_mark != nullptr) fatal_mark->store(1);
  // SA_RESETHAND has restored the default disposition: on return, the fault is raised again.
}

}  // namespace

// The layout is fixed; the file is read only on this machine.
struct PoisonRecord::File {
  std::uint64_t magic;
  std::atomic<std::uint32_t> crashed;
  std::uint64_t num_condemned;  // since creation; also the next place in the ring
  Condemned condemned[kMaxCondemned];
  struct Step {
    std::atomic<std::uint32_t> num_requests;
    RequestDigest requests[kMaxInStep];

    std::span<const RequestDigest> running() const {
      return std::span(requests).first(std::min<std::size_t>(num_requests.load(), kMaxInStep));
    }
  } steps[kMaxEngines][kMaxInFlight];  // sparse file: unused steps take no space
  Step& step(std::int32_t engine, std::int64_t number) { return steps[engine][number % kMaxInFlight]; }
};

RequestDigest digest_of(const Request& request) {
  RequestDigest out = {mix64(request.prompt_token_ids.size()),
                       mix64(static_cast<std::uint64_t>(request.work.kind) + 7)};
  for (const TokenId token : request.prompt_token_ids) {
    out[0] = mix64(out[0] ^ static_cast<std::uint64_t>(token));
    out[1] = mix64(out[1] + static_cast<std::uint64_t>(token) * 0x9E3779B97F4A7C15ull);
  }
  if (request.adapter != nullptr) out[1] = mix64(out[1] ^ xxh64(request.adapter->identity));
  return out;
}

Result<std::unique_ptr<PoisonRecord>> PoisonRecord::open(const std::string& path, Now now) {
  static_assert(std::is_trivially_destructible_v<File>);
  std::unique_ptr<PoisonRecord> out(new PoisonRecord);
  out->now_ = std::move(now);
  out->descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (out->descriptor_ < 0) return internal_error(concat("cannot open ", path, ": ", std::strerror(errno)));
  if (::flock(out->descriptor_, LOCK_EX | LOCK_NB) != 0)
    return unavailable(concat(path, " is in use by another process"));
  if (::ftruncate(out->descriptor_, sizeof(File)) != 0)
    return internal_error(concat("cannot write ", path, ": ", std::strerror(errno)));
  void* const address =
      ::mmap(nullptr, sizeof(File), PROT_READ | PROT_WRITE, MAP_SHARED, out->descriptor_, 0);
  if (address == MAP_FAILED) return internal_error(concat("cannot map ", path, ": ", std::strerror(errno)));
  out->file_ = static_cast<File*>(address);
  File& file = *out->file_;
  if (file.magic != kMagic) {
    if (::ftruncate(out->descriptor_, 0) != 0 || ::ftruncate(out->descriptor_, sizeof(File)) != 0)
      return internal_error(concat("cannot write ", path, ": ", std::strerror(errno)));
    file.magic = kMagic;
    return out;
  }
  out->num_condemned_ = static_cast<std::int64_t>(std::min<std::uint64_t>(file.num_condemned, kMaxCondemned));
  std::vector<RequestDigest> in_step;  // any of the engines may have crashed
  for (auto& steps : file.steps) {
    for (File::Step& step : steps) {
      in_step.insert(in_step.end(), step.running().begin(), step.running().end());
      if (step.num_requests.load() != 0) step.num_requests = 0;
    }
  }
  std::ranges::sort(in_step);  // a request may have been in several steps
  in_step.erase(std::unique(in_step.begin(), in_step.end()), in_step.end());
  if (file.crashed.exchange(0) != 0) out->condemn_all(in_step);
  return out;
}

PoisonRecord::~PoisonRecord() {
  if (file_ != nullptr) {
    if (fatal_mark == &file_->crashed) fatal_mark = nullptr;
    ::munmap(file_, sizeof(File));
  }
  if (descriptor_ >= 0) ::close(descriptor_);
}

void PoisonRecord::begin(std::span<const RequestDigest> in_step, std::int32_t engine, std::int64_t step) {
  File::Step& file = file_->step(engine, step);
  const std::size_t count = std::min(in_step.size(), kMaxInStep);
  std::copy_n(in_step.begin(), count, file.requests);
  file.num_requests.store(static_cast<std::uint32_t>(count), std::memory_order_release);
}

void PoisonRecord::end(std::int32_t engine, std::int64_t step) {
  file_->step(engine, step).num_requests.store(0, std::memory_order_release);
}

void PoisonRecord::condemn(std::int32_t engine, std::int64_t step) {
  condemn_all(file_->step(engine, step).running());
}

void PoisonRecord::condemn_all(std::span<const RequestDigest> digests) {
  std::lock_guard lock(mutex_);
  const std::int64_t until = now_() + (digests.size() == 1 ? kAloneSeconds : kAmongOthersSeconds);
  for (const RequestDigest& digest : digests)
    file_->condemned[file_->num_condemned++ % kMaxCondemned] = {.digest = digest, .until = until};
  num_condemned_ = static_cast<std::int64_t>(std::min<std::uint64_t>(file_->num_condemned, kMaxCondemned));
}

bool PoisonRecord::refuses(const Request& request) const {
  if (num_condemned_.load() == 0) return false;
  const RequestDigest digest = digest_of(request);
  std::lock_guard lock(mutex_);
  const std::int64_t now = now_();
  return std::ranges::any_of(
      file_->condemned, [&](const Condemned& entry) { return entry.digest == digest && entry.until > now; });
}

void PoisonRecord::mark_fatal_signals() {
  fatal_mark = &file_->crashed;
  struct sigaction action{};
  action.sa_handler = on_fatal_signal;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGSEGV, SIGILL, SIGFPE, SIGABRT}) sigaction(signal, &action, nullptr);
}

}  // namespace pagoda
