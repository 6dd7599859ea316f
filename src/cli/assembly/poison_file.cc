#include "cli/assembly/poison_file.h"

#include <chrono>
#include <filesystem>

#include "base/log.h"
#include "base/strings.h"
#include "cli/assembly/default_model.h"

namespace pagoda {
namespace {

std::int64_t unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

std::string default_poison_file(std::int32_t port) {
  return concat(cache_directory(), "/poison/port-", port);
}

std::unique_ptr<PoisonRecord> poison_record(const EngineFlags& flags) {
  if (flags.poison_record.empty() || flags.poison_record == "none") return nullptr;
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(flags.poison_record).parent_path(), ignored);
  auto record = PoisonRecord::open(flags.poison_record, unix_seconds);
  if (!record) {
    log_warning("start", concat("requests that crash the engine will not be recorded (--poison-record): ",
                                record.error().message()));
    return nullptr;
  }
  (*record)->mark_fatal_signals();
  if ((*record)->num_condemned() > 0)
    log_warning("start", concat((*record)->num_condemned(),
                                " requests were running when an engine crashed; they are refused for some "
                                "time (--poison-record)"));
  return *std::move(record);
}

}  // namespace pagoda
