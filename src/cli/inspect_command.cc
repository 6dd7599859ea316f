#include "cli/inspect_command.h"

#include <cstdio>

#include "cli/hub_paths.h"
#include "loader/describe.h"

namespace pagoda {

int run_inspect(const InspectArgs& args) {
  const Result<Description> description = describe(args.path, hub_paths_from_environment());
  if (!description) {
    std::fprintf(stderr, "pagoda: %s\n", description.error().message().c_str());
    return 2;
  }
  const std::string text = args.json ? describe_json(*description) + "\n" : describe_table(*description);
  std::fwrite(text.data(), 1, text.size(), stdout);
  if (std::fflush(stdout) != 0) {
    std::fputs("pagoda: cannot write to standard output\n", stderr);
    return 2;
  }
  return 0;
}

}  // namespace pagoda
