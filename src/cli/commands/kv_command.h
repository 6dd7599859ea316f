#pragma once
// pagoda kv: the folder in which --kv-disk keeps K/V: what it holds, whether it is whole, and how to empty
// it.
#include <string>
#include <vector>

#include "cli/flags/flag.h"

namespace pagoda {

struct KvPathArgs {
  std::string path;
};
std::vector<Flag> kv_path_flags(KvPathArgs& args);

int run_kv_list(const KvPathArgs& args);
// Fails if a row's bytes are not those that were written.
int run_kv_verify(const KvPathArgs& args);
// Fails while a server has the folder.
int run_kv_clear(const KvPathArgs& args);

}  // namespace pagoda
