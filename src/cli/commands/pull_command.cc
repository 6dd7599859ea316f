#include "cli/commands/pull_command.h"

#include <cstdio>

#include "base/strings.h"
#include "cli/assembly/hub_paths.h"
#include "cli/assembly/hub_settings.h"
#include "cli/exit_code.h"
#include "cli/mib.h"
#include "hub/pull.h"
#include "loader/printable.h"

namespace pagoda {
namespace {

std::string cache() { return hub_paths_from_environment().cache_dirs.front(); }

int flushed() { return std::fflush(stdout) == 0 ? 0 : fail("cannot write to standard output"); }

int no_name(const std::string& name) {
  return fail(
      concat("'", printable(name), "' is no model's name: ORG/NAME, ORG/NAME:TAG or ORG/NAME@REVISION"));
}

}  // namespace

int run_pull(const PullArgs& args) {
  const auto name = parse_pull_name(args.name);
  if (!name) return no_name(args.name);
  const auto pulled = pull_with_progress(*name);
  if (!pulled) return exit_code(pulled.error());
  const std::string& first = pulled->files.front();
  const bool one_file = first.ends_with(".gguf");
  std::printf("%s\n", one_file ? concat(pulled->snapshot, "/", first).c_str() : pulled->snapshot.c_str());
  return flushed();
}

int run_list(const ListArgs&) {
  std::int64_t total = 0;
  for (const CachedModel& model : list_pulled(cache())) {
    total += model.bytes;
    std::printf("%12s  %s%s\n", mib(model.bytes).c_str(), model.name.c_str(),
                model.incomplete ? "  (not whole)" : "");
  }
  std::printf("%12s  in %s\n", mib(total).c_str(), cache().c_str());
  return flushed();
}

int run_rm(const PullArgs& args) {
  const auto name = parse_pull_name(args.name);
  if (!name) return no_name(args.name);
  if (!name->tag.empty() || name->name.revision != "main")
    return fail(concat("rm removes all of a repository: pagoda rm ", name->name.repository));
  const auto freed = remove_pulled(name->name.repository, cache());
  if (!freed) return exit_code(freed.error());
  std::printf("removed %s, %s\n", name->name.repository.c_str(), mib(*freed).c_str());
  return flushed();
}

}  // namespace pagoda
