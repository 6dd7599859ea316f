#include "cli/flags/engine_flag_table.h"

#include <iterator>

namespace pagoda {

std::vector<Flag> engine_flag_table(EngineFlags& flags) {
  std::vector<Flag> all;
  const auto add = [&all](const char* group, std::vector<Flag> rows) {
    for (Flag& row : rows) {
      row.group = group;
      row.environment = true;
    }
    all.insert(all.end(), std::make_move_iterator(rows.begin()), std::make_move_iterator(rows.end()));
  };
  add("Model", model_flag_table(flags));
  add("Model", adapter_flag_table(flags));
  add("Model", rope_flag_table(flags));
  add("Default sampling parameters", sampling_flag_table(flags.sampling));
  add("Server", server_flag_table(flags.server));
  add("KV cache", kv_cache_flag_table(flags));
  add("Scheduler", scheduler_flag_table(flags));
  add("Machine", machine_flag_table(flags));
  add("Tensor parallelism", rank_flag_table(flags));
  return all;
}

}  // namespace pagoda
