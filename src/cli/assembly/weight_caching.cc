#include "cli/assembly/weight_caching.h"

#include <chrono>
#include <optional>

#include "base/log.h"
#include "cli/assembly/default_model.h"
#include "cli/commands/progress_bar.h"

namespace pagoda {
namespace {

// A bar that is only seen when there is something to wait for.
class PatientBar {
 public:
  void update(std::int64_t done, std::int64_t total) {
    constexpr std::int64_t kMiB = 1 << 20;
    if (!bar_ && std::chrono::steady_clock::now() - start_ < std::chrono::milliseconds(500)) return;
    if (!bar_) bar_.emplace("packing weights", total / kMiB, "MiB");
    bar_->update(done / kMiB);
    if (done == total) bar_.reset();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::optional<ProgressBar> bar_;
};

}  // namespace

WeightCache weight_cache(const EngineFlags& flags) {
  return {cache_directory() + "/weights", flags.weight_cache_bytes};
}

std::shared_ptr<const WeightCaching> weight_caching(const EngineFlags& flags, bool quiet) {
  if (!flags.weight_cache || flags.backend == "reference") return nullptr;
  auto caching = std::make_shared<WeightCaching>(WeightCaching{.cache = weight_cache(flags)});
  if (quiet) return caching;
  caching->say = [](std::string_view line) { log_info("weights", std::string(line)); };
  const auto bar = std::make_shared<PatientBar>();
  caching->progress = [bar](std::int64_t done, std::int64_t total) { bar->update(done, total); };
  return caching;
}

}  // namespace pagoda
