#pragma once
// ModelWatch: detects that files of the served model were changed, shortened or removed, and logs each change
// once. It reloads nothing: the server computes with its own copy, so answers do not change. Threads: start()
// runs a thread until destruction; check() from one thread.
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/metrics.h"

namespace pagoda {

class ModelWatch {
 public:
  // Records the current state of the files; create it before they are read.
  explicit ModelWatch(std::vector<std::string> paths);
  ~ModelWatch();
  ModelWatch(const ModelWatch&) = delete;

  // Returns the files of a MODEL argument; empty if the model is not found, which is reported by the code
  // that opens it.
  static std::vector<std::string> files_of(const std::string& model);

  // Returns the first file that differs from its initial state and has changed since the last check;
  // empty if none.
  std::string check();
  // Checks at this interval and logs changes; adds a gauge to `metrics` that tells whether the files are
  // unchanged.
  void start(MetricsRegistry& metrics, std::chrono::milliseconds every = std::chrono::seconds(5));

 private:
  struct Stamp {
    std::int64_t bytes = -1, modified = 0;  // bytes is -1 if the file does not exist
    std::uint64_t inode = 0;
    bool operator==(const Stamp&) const = default;
  };
  struct File {
    std::string path;
    Stamp loaded, seen;
  };
  static Stamp stamp_of(const std::string& path);

  std::vector<File> files_;
  std::mutex mutex_;
  std::condition_variable ended_changed_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace pagoda
