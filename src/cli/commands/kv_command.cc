#include "cli/commands/kv_command.h"

#include <cstdio>

#include "base/assign_or_return.h"
#include "base/strings.h"
#include "cli/exit_code.h"
#include "cli/flags/flag_values.h"
#include "cli/mib.h"
#include "kv_store/disk_files.h"
#include "kv_store/inspect_segments.h"
#include "kv_store/segment_store.h"
#include "loader/printable.h"

namespace pagoda {
namespace {

Status flushed_status() {
  return std::fflush(stdout) == 0 ? ok_status() : internal_error("cannot write to standard output");
}

Result<KvContents> contents_of(const std::string& path, InspectDepth depth) {
  PAGODA_ASSIGN_OR_RETURN(const auto files, DiskFiles::open(path, DiskFiles::Lock::none));
  return inspect_segments(*files, depth);
}

Status list(const std::string& path) {
  PAGODA_ASSIGN_OR_RETURN(const auto contents, contents_of(path, InspectDepth::headers));
  for (const KvContents::Model& model : contents.models)
    std::printf("%12s  %10lld tokens  %016llx  %s\n", mib(model.bytes).c_str(),
                static_cast<long long>(model.tokens), static_cast<unsigned long long>(model.fingerprint[0]),
                printable(model.label).c_str());
  std::printf("%12s  in %lld files of %s\n", mib(contents.file_bytes).c_str(),
              static_cast<long long>(contents.files), printable(path).c_str());
  return flushed_status();
}

Status verify(const std::string& path) {
  PAGODA_ASSIGN_OR_RETURN(const auto contents, contents_of(path, InspectDepth::every_byte));
  std::int64_t rows = 0, damaged = 0;
  for (const KvContents::Model& model : contents.models) {
    rows += model.rows;
    damaged += model.damaged_rows;
  }
  std::printf("%lld rows, of which %lld are damaged; %lld bytes are torn\n", static_cast<long long>(rows),
              static_cast<long long>(damaged), static_cast<long long>(contents.torn_bytes));
  PAGODA_RETURN_IF_ERROR(flushed_status());
  if (damaged == 0) return ok_status();
  return corrupt_data("damaged rows are never used, but the disk may be failing");
}

Status clear(const std::string& path) {
  // Do not create a missing folder.
  if (const auto looked = DiskFiles::open(path, DiskFiles::Lock::none); !looked) return looked.error();
  PAGODA_ASSIGN_OR_RETURN(auto files, DiskFiles::open(path, DiskFiles::Lock::taken));
  PAGODA_ASSIGN_OR_RETURN(const auto before, inspect_segments(*files, InspectDepth::headers));
  const SteadyClock clock;
  PAGODA_ASSIGN_OR_RETURN(auto store,
                          SegmentStore::open(std::move(files), {.max_bytes = before.file_bytes}, clock));
  if (const auto erased = store->erase([](const KvKey&, const CacheOwner&) { return true; }); !erased)
    return erased.error();
  std::printf("removed %s from %s\n", mib(before.file_bytes).c_str(), printable(path).c_str());
  return flushed_status();
}

}  // namespace

std::vector<Flag> kv_path_flags(KvPathArgs& args) {
  return {{.positional = "PATH",
           .value = flags::text(args.path, "PATH"),
           .help = "folder of serve --kv-disk",
           .required = true}};
}

int run_kv_list(const KvPathArgs& args) { return exit_code(list(args.path)); }
int run_kv_verify(const KvPathArgs& args) { return exit_code(verify(args.path)); }
int run_kv_clear(const KvPathArgs& args) { return exit_code(clear(args.path)); }

}  // namespace pagoda
