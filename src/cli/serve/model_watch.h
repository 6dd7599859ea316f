#pragma once
// ModelWatch: notices that the files of the model that is served have changed, shrunk or gone, and says so
// once for each change. It reloads nothing: what is computed with is the server's own copy, so answers stay
// what they were. Threads: start() has one of its own, until the end; check() from one thread.
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
  // Looks at the files as they are now: make it before they are read.
  explicit ModelWatch(std::vector<std::string> paths);
  ~ModelWatch();
  ModelWatch(const ModelWatch&) = delete;

  // The files of a MODEL argument; empty: it cannot be found, which whoever opens it will say.
  static std::vector<std::string> files_of(const std::string& model);

  // The first that is not what it was, and was the last time; empty: none.
  std::string check();
  // Checks that often, and logs; `metrics` gets a gauge of whether all is as it was.
  void start(MetricsRegistry& metrics, std::chrono::milliseconds every = std::chrono::seconds(5));

 private:
  struct Stamp {
    std::int64_t bytes = -1, modified = 0;  // bytes -1: there is no such file
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
