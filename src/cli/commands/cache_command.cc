#include "cli/commands/cache_command.h"

#include <cstdio>
#include <ctime>

#include "base/assign_or_return.h"
#include "base/strings.h"
#include "cli/assembly/assemble.h"
#include "cli/assembly/weight_caching.h"
#include "cli/exit_code.h"
#include "cli/mib.h"
#include "loader/printable.h"

namespace pagoda {
namespace {

std::string date(std::int64_t seconds) {
  const std::time_t time = seconds;
  std::tm local{};
  char text[32] = "";
  if (::localtime_r(&time, &local) != nullptr) std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", &local);
  return text;
}

}  // namespace

Status run_pack(const PackArgs& args) {
  if (!weight_caching(args.engine)->cache)
    return invalid_argument(
        "pack writes to the weight cache, which --no-weight-cache and --backend reference do not use");
  PAGODA_ASSIGN_OR_RETURN(auto engine, AssembledEngine::create(args.engine, AssembledEngine::Report::quiet));
  const Status written = engine->write_weights();
  engine->stop();
  if (!written.ok()) return written;
  const MemoryTable& memory = engine->memory();
  std::printf("%s of packed weights are in %s\n", mib(memory.weight_bytes + memory.embedding_bytes).c_str(),
              weight_cache(args.engine).folder().c_str());
  return std::fflush(stdout) == 0 ? ok_status() : internal_error("cannot write to standard output");
}

int run_cache_list(const CacheArgs&) {
  const WeightCache cache = weight_cache({});
  std::int64_t total = 0;
  for (const CachedFile& file : cache.list()) {
    total += file.bytes;
    const std::string source = file.source.empty() ? "(cannot be read)" : printable(file.source);
    std::printf("%12s  %s  %s\n", mib(file.bytes).c_str(), date(file.last_use).c_str(), source.c_str());
  }
  std::printf("%12s  in %s\n", mib(total).c_str(), cache.folder().c_str());
  return flush_output();
}

int run_cache_clear(const CacheArgs&) {
  const WeightCache cache = weight_cache({});
  std::printf("removed %s from %s\n", mib(cache.clear()).c_str(), cache.folder().c_str());
  return flush_output();
}

}  // namespace pagoda
