#include "cli/flags/cpu_list_flag.h"

#include <string_view>
#include <utility>

#include "base/assign_or_return.h"
#include "base/numa.h"

namespace pagoda {

Result<CpuListFlag> parse_cpu_list_flag(const std::string& text) {
  if (text == "auto") return CpuListFlag{};
  if (text == "none") return CpuListFlag{.automatic = false, .lists = {}};
  CpuListFlag out{.automatic = false, .lists = {}};
  for (std::string_view rest = text;;) {
    const std::size_t bar = rest.find('|');
    PAGODA_ASSIGN_OR_RETURN(auto list, parse_cpu_list(rest.substr(0, bar)));
    out.lists.push_back(std::move(list));
    if (bar == std::string_view::npos) return out;
    rest.remove_prefix(bar + 1);
  }
}

}  // namespace pagoda
