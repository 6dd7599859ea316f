#pragma once
// pagoda kv: lists, verifies and clears the folder in which --kv-disk keeps K/V.
#include <string>
#include <vector>

#include "cli/flags/flag.h"

namespace pagoda {

struct KvPathArgs {
  std::string path;
};
std::vector<Flag> kv_path_flags(KvPathArgs& args);

int run_kv_list(const KvPathArgs& args);
// Fails if the bytes of a row differ from those written.
int run_kv_verify(const KvPathArgs& args);
// Fails while a server uses the folder.
int run_kv_clear(const KvPathArgs& args);

}  // namespace pagoda
